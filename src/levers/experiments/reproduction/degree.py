"""Against the degree of the causal graph, which should not matter when all levers are set."""

from levers.experiments.reproduction.sweep import Point, Sweep

_DEGREES = {"smoke": (1, 5), "notebook": (1, 3, 5), "paper": (1, 2, 3, 5)}
PANEL = "K = 30, 10 parents"

SWEEP = Sweep(
    "degree",
    "Runs and gap against the degree of the graph",
    "expected degree of the graph",
    {
        size: tuple(Point.at(PANEL, d, n_factors=30, n_parents=10, degree=float(d)) for d in degrees)
        for size, degrees in _DEGREES.items()
    },
    "Only watching depends on the graph; whoever sets all levers cuts every arrow into them.",
)
