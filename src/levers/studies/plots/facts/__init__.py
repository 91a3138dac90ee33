"""What the pictures of a study say: titles, captions, words for those who do not see them, and tables.

Nothing here draws or needs matplotlib, so files (`levers.studies.plots`) and pages (`levers.web.charts`) say the same.
"""

from levers.studies.plots.facts.common import Facts, cut_note, leaders, nothing_yet
from levers.studies.plots.facts.effects import effects_facts
from levers.studies.plots.facts.elimination import elimination_facts
from levers.studies.plots.facts.forecast import RunsOnly, Steps, counted_facts, forecast_facts, to_go_words
from levers.studies.plots.facts.history import MANY, history_facts
from levers.studies.plots.facts.outcomes import Outcomes
from levers.studies.plots.facts.seen import Seen

__all__ = [
    "MANY",
    "Facts",
    "Outcomes",
    "RunsOnly",
    "Seen",
    "Steps",
    "counted_facts",
    "cut_note",
    "effects_facts",
    "elimination_facts",
    "forecast_facts",
    "history_facts",
    "leaders",
    "nothing_yet",
    "to_go_words",
]
