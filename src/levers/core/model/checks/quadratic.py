"""Laws of quadratic forms in residuals, matched by their first two moments.

With e = M z, z standard normal, M a projection of rank nu and D symmetric, the form e^T D e and the ratio e^T D e /
e^T e have moments that are traces:

    E e^T D e = tr(MD),        Var e^T D e = 2 tr((MD)^2),
    E Q = tr(MD) / nu,         Var Q = 2 (nu tr((MD)^2) - tr(MD)^2) / (nu^2 (nu + 2)),

because the ratio is independent of e^T e. A scaled chi-squared law and a Beta law with the same moments stand in for
the exact ones; they are exact where MD is a multiple of a projection.
"""

import math

from scipy.special import betainc, gammaincc


def form_p_value(value: float, first: float, second: float) -> float:
    """P(e^T D e > value) with tr(MD) = first and tr((MD)^2) = second: c chi-squared on f, c f = first, c^2 f = second.

    >>> from scipy.special import chdtrc
    >>> bool(abs(form_p_value(7.0, 3.0, 3.0) - chdtrc(3, 7.0)) < 1e-12)
    True
    """
    if first <= 0 or second <= 0:
        return 1.0
    scale = second / first
    return float(gammaincc(first / scale / 2, max(value, 0.0) / scale / 2))


def ratio_p_value(value: float, first: float, second: float, dof: int, low: float = 0.0, high: float = 1.0) -> float:
    """P(e^T D e / e^T e > value), the ratio lying between low and high: a Beta law on that range.

    For D a group of runs that the fit leaves alone this is an F test: e^T D e / e^T e is Beta(3 / 2, 7 / 2) below.

    >>> round(ratio_p_value(0.8, 3.0, 3.0, 10), 9) == round(1 - float(betainc(1.5, 3.5, 0.8)), 9)
    True
    """
    if dof < 1:
        return 1.0
    width = high - low
    mean = (first / dof - low) / width
    variance = 2 * (dof * second - first**2) / (dof**2 * (dof + 2)) / width**2
    if not 0 < mean < 1 or variance <= 1e-12:
        return 1.0
    common = mean * (1 - mean) / variance - 1
    if not (math.isfinite(common) and common > 0):
        return 1.0
    at = min(max((value - low) / width, 0.0), 1.0)
    return float(betainc((1 - mean) * common, mean * common, 1 - at))
