"""Against the size of interactions that the additive model leaves out (the appendix's alpha)."""

from levers.experiments.reproduction.sweep import Point, Sweep

_ALPHAS = {"smoke": (0.0, 1.0), "notebook": (0.0, 0.25, 0.5, 0.75, 1.0), "paper": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)}
N_FACTORS, N_PARENTS = 10, 5
PANEL = f"K = {N_FACTORS}, {N_PARENTS} parents, at most 6 levels"

SWEEP = Sweep(
    "misspecification",
    "Runs and gap when the outcome is not additive",
    "size of the interactions, alpha",
    {
        size: tuple(
            Point.at(PANEL, alpha, n_factors=N_FACTORS, n_parents=N_PARENTS, interaction=alpha) for alpha in alphas
        )
        for size, alphas in _ALPHAS.items()
    },
    "The paper does not say how many factors and parents its figure has; these are ours.",
)
