"""All charts of a study by name."""

from levers.charts.check_charts import additivity, evidence, residuals
from levers.charts.facts import Seen
from levers.charts.level_charts import effects, elimination
from levers.charts.run_charts import compare, forecast, history
from levers.charts.svg import NARROW, WIDE, Chart, Draw

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
