"""Without the additive assumption: how many runs any method needs to find a needle (Theorem in Section 2.2)."""

from levers.core.certificates.limits import binary_divergence
from levers.core.validation import check_count, check_positive, check_probability


def flat_world_bound(n_settings: int, tolerance: float, failure_prob: float, noise_sd: float) -> float:
    """Mean runs of any (eps, delta)-PAC method on the world in which all settings are alike.

    E[runs] >= (2 sigma^2 / eps^2) N kl(1/N, 1 - delta),   N = |supp(pa(Y))|, Gaussian noise

    Derivation. Let P_0 be the flat world, P_x the one in which setting x has mean g > eps and all others 0, and A_x the
    event that the method ends with x. Being PAC means P_x(A_x) >= 1 - delta. The two worlds differ in runs at x only,
    so E_0[runs at x] g^2 / (2 sigma^2) >= kl(P_0(A_x), P_x(A_x)) (the divergence decomposition behind Theorem 33.5 of
    Lattimore and Szepesvari). At most one A_x happens, so sum_x P_0(A_x) <= 1; kl(., 1 - delta) is convex and falls up
    to 1 - delta, so the sum over x is least when all are 1/N. Let g go down to eps.

    This is the theorem's N / eps^2 log(1 / delta) with a constant: kl(1/N, 1 - delta) is about log(1 / delta). The
    paper's own instance does not give it: if the height of the needle is known, then runs at the needle alone tell its
    world from all others, so that the optimal weights in the proof lie there and N drops out of the limit for small
    delta. The flat world, which is a problem too, has no such setting. See `needle_bound` for the needle itself.

    >>> round(flat_world_bound(1024, 0.5, 0.1, 1.0))
    18782
    >>> flat_world_bound(1, 0.5, 0.1, 1.0)
    0.0
    """
    _check(n_settings, tolerance, failure_prob, noise_sd)
    if 1 / n_settings >= 1 - failure_prob:
        return 0.0
    return 2 * (noise_sd / tolerance) ** 2 * n_settings * binary_divergence(1 / n_settings, 1 - failure_prob)


def needle_bound(n_settings: int, height: float, failure_prob: float, noise_sd: float) -> float:
    """Mean runs of any method, even one told the height, over needles whose place is drawn uniformly.

    E[runs] >= (4/3) sigma^2 N a^3 / h^2,   a = 1 - delta - 1/N (0 if that is negative), Gaussian noise

    Derivation. Stop the method after n runs. With P_0, P_x and A_x as above and Pinsker's inequality,
    P_x(A_x, runs <= n) <= P_0(A_x) + sqrt(E_0[runs at x, up to n] h^2 / (4 sigma^2)). Averaged over x, by Jensen's
    inequality, that is at most 1/N + sqrt(n h^2 / (4 sigma^2 N)). A wrong end has probability delta at most, so
    P(runs > n) >= a - sqrt(n h^2 / (4 sigma^2 N)); the integral over n up to where this is 0 is the bound.

    >>> round(needle_bound(1024, 1.0, 0.1, 1.0))
    992
    """
    _check(n_settings, height, failure_prob, noise_sd)
    return 4 / 3 * n_settings * (noise_sd / height) ** 2 * max(1 - failure_prob - 1 / n_settings, 0.0) ** 3


def _check(n_settings: int, size: float, failure_prob: float, noise_sd: float) -> None:
    check_count("the number of settings", n_settings)
    check_positive("the height or tolerance", size)
    check_probability("failure_prob", failure_prob)
    check_positive("noise_sd", noise_sd)
