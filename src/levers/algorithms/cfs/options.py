"""What a user may set of CFS whichever rules a study goes by."""

from dataclasses import dataclass
from typing import ClassVar

from levers.algorithms.base import Algorithm
from levers.algorithms.cfs import settings
from levers.core.certificates.certificate import CERTIFICATES
from levers.core.validation import check_choice, check_scale


@dataclass(frozen=True)
class CfsOptions(Algorithm):
    """Options, in the order in which verdicts name them, and what studies may ask of CFS.

    `max_parents` and `min_effect` are what the user knows. A `budget` takes the place of a tolerance. `batch_size` is
    the most runs asked for at a time, and `most_cells` bounds runs times factors of a design.
    """

    name: ClassVar[str] = "cfs"
    absorbs_runs: ClassVar[bool] = True
    certifies_early: ClassVar[bool] = True
    compares_within_blocks: ClassVar[bool] = True
    finishes_early: ClassVar[bool] = True

    certificate: str = CERTIFICATES[0]
    noise: str = settings.NOISES[0]
    max_parents: int | None = None
    min_effect: float | None = None
    budget: int | None = None
    batch_size: int | None = None
    most_cells: int = settings.MOST_CELLS

    def check_options(self) -> None:
        """Refuse a certificate, a noise or a least effect that there is not."""
        check_choice("certificate", self.certificate, CERTIFICATES[:2])
        check_choice("noise", self.noise, settings.NOISES)
        if self.min_effect is not None:
            check_scale("min_effect", self.min_effect)
