"""All experiments by name."""

from levers.experiments.reproduction import degree, elimination, hardness, misspecification, parents, support
from levers.experiments.reproduction.sweep import Sweep

SWEEPS: dict[str, Sweep] = {
    sweep.name: sweep
    for sweep in (
        parents.SWEEP,
        elimination.SWEEP,
        support.SWEEP,
        degree.SWEEP,
        misspecification.SWEEP,
        hardness.SWEEP,
    )
}
