"""Charts of studies as drawings in the page: no script, no font, nothing to load. See docs/decisions/0015-charts.md.

A page makes one `Seen` for a study, draws each chart at both widths from it, and puts the two into one `.charts` box.
"""

from levers.studies.plots.facts import Seen
from levers.web.charts.additivity import additivity
from levers.web.charts.chart import NARROW, WIDE, Chart, Draw
from levers.web.charts.compare import compare
from levers.web.charts.effects import effects
from levers.web.charts.elimination import elimination
from levers.web.charts.evidence import evidence
from levers.web.charts.forecast import forecast
from levers.web.charts.history import history
from levers.web.charts.residuals import residuals

CHARTS: dict[str, Draw] = {
    "effects": effects,
    "elimination": elimination,
    "forecast": forecast,
    "history": history,
    "residuals": residuals,
    "additivity": additivity,
    "evidence": evidence,
}
"""The charts of one study, in the order in which they are of use."""

__all__ = ["CHARTS", "NARROW", "WIDE", "Chart", "Draw", "Seen", "compare"]
