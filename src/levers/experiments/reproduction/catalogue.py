"""All experiments by name."""

from levers.experiments.reproduction import degree, elimination, hardness, misspecification, parents, support
from levers.experiments.reproduction.sweep import Sweep

SWEEPS: dict[str, Sweep] = {
    module.SWEEP.name: module.SWEEP for module in (parents, elimination, support, degree, misspecification, hardness)
}
