"""All charts of a study by name, as drawings for a page."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from markupsafe import Markup

from levers.charts import check_facts, facts, level_charts, run_charts
from levers.charts.facts import Facts
from levers.charts.svg import NARROW, WIDE, Canvas, placeholder
from levers.charts.view import StudyView

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Chart:
    """A drawing, and what it says. Its looks are classes only; see charts.css."""

    key: str
    facts: Facts[Any]
    svg: Markup


@dataclass(frozen=True)
class Kind(Generic[S, T]):
    """A kind of chart: how its facts are found, and how their data are drawn."""

    key: str
    facts: Callable[[S], Facts[T]]
    draw: Callable[[Canvas, T], None]

    def chart(self, found: Facts[T], width: int = WIDE) -> Chart:
        """Draw it; where there is nothing to draw, say so."""
        canvas = Canvas(self.key, width)
        if found.data is None:
            placeholder(canvas, found.alt)
        else:
            self.draw(canvas, found.data)
        said = replace(found, caption=found.caption + canvas.note) if canvas.note else found
        return Chart(self.key, said, canvas.drawing(found.title, found.alt))

    def both(self, of: S) -> tuple[Chart, Chart]:
        """For a wide and for a narrow window.

        >>> import levers
        >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
        >>> wide, narrow = CHARTS["effects"].both(StudyView("oven", study.state))
        >>> wide.facts.title
        'oven: what each level loses against the leading one'
        """
        found = self.facts(of)
        return self.chart(found, WIDE), self.chart(found, NARROW)


CHARTS: dict[str, Kind[StudyView, Any]] = {
    kind.key: kind
    for kind in (
        Kind("effects", facts.effects_facts, level_charts.draw_effects),
        Kind("elimination", facts.elimination_facts, level_charts.draw_elimination),
        Kind("forecast", facts.forecast_facts, run_charts.draw_forecast),
        Kind("history", facts.history_facts, run_charts.draw_history),
        Kind("residuals", check_facts.residuals_facts, run_charts.draw_residuals),
        Kind("additivity", check_facts.additivity_facts, level_charts.draw_bars),
        Kind("evidence", check_facts.evidence_facts, level_charts.draw_bars),
    )
}
"""The charts of one study, in the order in which they are of use."""

COMPARE: Kind[Sequence[StudyView], Any] = Kind("compare", facts.compare_facts, run_charts.draw_compare)
"""The chart of several studies."""


def charts_of(view: StudyView, keys: Iterable[str]) -> list[tuple[Chart, Chart]]:
    """Some charts of a study, for a wide and for a narrow window: drawn once, then kept with the view."""
    return [view.keep(f"chart {key}", partial(CHARTS[key].both, view)) for key in keys]
