"""What the charts of a study say: titles, captions, words for those who do not see them, tables, numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from levers.algorithms.base import Verdict
from levers.studies.analysis import diagnostics, evidence, views
from levers.studies.analysis.estimates import Estimates
from levers.studies.analysis.views import EffectRow, Forecast
from levers.studies.events import Numbers
from levers.studies.state import SET_ASIDE, StudyState, TrialState

MAX_LABEL = 30
"""The longest label beside a row; longer ones end in an ellipsis."""

MAX_TITLE = 60

_FALLBACKS = (
    "Noto Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "WenQuanYi Micro Hei",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Arial Unicode MS",
)


@lru_cache(maxsize=1)
def families() -> tuple[str, ...]:
    """The font that matplotlib brings, then those of this machine that have what it lacks."""
    from matplotlib import font_manager  # not above: pages use the rest of this file, and need no matplotlib

    known = set(font_manager.get_font_names())
    return ("DejaVu Sans", *(name for name in _FALLBACKS if name in known))


@lru_cache(maxsize=1)
def _drawable() -> frozenset[int]:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    fonts = [FT2Font(font_manager.findfont(name)) for name in families()]
    return frozenset(code for font in fonts for code in font.get_charmap())


def plain(value: object) -> str:
    """A value on one line, without anything that cannot be printed.

    >>> plain("a\\nb\\0c"), plain(2.5), plain("")
    ('a b?c', '2.5', '(empty)')
    """
    line = " ".join(str(value).split())
    return "".join(c if c.isprintable() else "?" for c in line) or "(empty)"


def clipped(value: object, most: int = MAX_LABEL) -> str:
    """A value on one line, with an ellipsis in the middle of a long one: what differs is often at the end.

    >>> clipped("temperature of the second oven, zone 12")
    'temperature of the…en, zone 12'
    """
    text = plain(value)
    tail = most // 3 + 1
    return text if len(text) <= most else f"{text[: most - tail - 1].rstrip()}…{text[-tail:].lstrip()}"


def drawable(text: str) -> str:
    """A text with a question mark for what no font here can draw.

    >>> drawable("$x_1^2$ \\U0010fffd")
    '$x_1^2$ ?'
    """
    return "".join(c if ord(c) in _drawable() else "?" for c in text)


def label(value: object) -> str:
    """A value beside a row of a picture."""
    return drawable(clipped(value))


def number(value: float | None) -> str:
    """A number in a table.

    >>> number(1 / 3), number(None)
    ('0.333333', 'not known')
    """
    return "not known" if value is None else f"{value:.6g}"


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Outcomes as they came: trial, block and value of each, and whether it was set aside.

    `starts` says where a block begins; its last entry is where the last one ends.
    """

    trials: Numbers
    blocks: NDArray[np.int32]
    values: NDArray[np.float64]
    aside: NDArray[np.bool_]
    starts: list[int]

    @classmethod
    def of(cls, state: StudyState) -> "Outcomes":
        """Sorted by block first, since blocks follow each other even where clocks of several machines do not agree."""
        table = state.trials
        done = np.flatnonzero(table.state[: table.n_trials] == TrialState.COMPLETE)
        done = done[np.lexsort((done, table.told_at[done], table.block[done]))]
        blocks = table.block[done]
        flat = np.concatenate([np.zeros(0), *(block.values for block in state.blocks)])
        begins = np.cumsum([0, *(block.n_runs for block in state.blocks)])
        aside = np.isin(blocks, [i for i, block in enumerate(state.blocks) if block.role == SET_ASIDE])
        starts = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(done)]
        return cls(done, blocks, flat[begins[blocks] + table.row[done]], aside, starts if len(done) else [0])

    @property
    def n_outcomes(self) -> int:
        """How many."""
        return len(self.values)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First and past-last outcome of each block."""
        return list(pairwise(self.starts))

    @property
    def means(self) -> list[float]:
        """The mean of each block."""
        return [float(self.values[begin:end].mean()) for begin, end in self.spans]


MOST_POINTS = 400
"""The most residuals that are drawn."""


@dataclass(frozen=True, eq=False)
class Seen:
    """A study as it is now, and its views: each is worked out when first asked for, and kept.

    Make one for each page and throw it away with the page: it does not follow the study.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> seen = Seen("oven", study.state)
    >>> seen.lead, seen.n_runs, seen.effects is seen.effects
    ('leading', 0, True)
    """

    name: str
    state: StudyState

    @property
    def lead(self) -> str:
        """What the levels that are ahead are called."""
        return "chosen" if self.state.open_block is None else "leading"

    @cached_property
    def n_runs(self) -> int:
        """Outcomes that count, with the imported runs that are in use."""
        return self.state.n_complete + self._imported(self.state.n_past_used)

    @cached_property
    def _estimates(self) -> Estimates:
        return Estimates.of(self.state)

    @cached_property
    def status(self) -> views.Status:
        """Where the study stands."""
        return views.status(self.name, self.state)

    @cached_property
    def effects(self) -> list[views.EffectRow]:
        """Every level."""
        return views.effects(self.state, self._estimates)

    @cached_property
    def best(self) -> views.Best | None:
        """The setting that the estimates favour."""
        return views.best(self.state, self._estimates)

    @cached_property
    def forecast(self) -> views.Forecast:
        """Runs to go."""
        return views.forecast(self.state)

    @cached_property
    def verdict(self) -> Verdict | None:
        """The verdict; None before the end."""
        return views.verdict(self.state)

    @cached_property
    def outcomes(self) -> Outcomes:
        """Every outcome in the order of telling."""
        return Outcomes.of(self.state)

    @cached_property
    def steps(self) -> list[tuple[int, float]]:
        """Runs, and how far from the best the leading setting can be: after each block of cfs; else at the end."""
        solver, state = self.state.spec.solver, self.state
        if not solver.certifies_early:
            return [] if self.verdict is None else [(self.n_runs, self.verdict.tolerance)]
        found = [(solver.interim(known), used) for known, used in zip(state.known, state.past_used, strict=True)]
        # a verdict counts the study's own runs; levels are ruled out, and the end is counted, with the imported ones
        return [(v.n_runs + self._imported(used), v.tolerance) for v, used in found if v is not None]

    @cached_property
    def residuals(self) -> diagnostics.Residuals:
        """What the additive fit leaves over, as few enough points to draw."""
        return diagnostics.residuals(self.state, most=MOST_POINTS)

    @cached_property
    def additivity(self) -> diagnostics.Additivity:
        """Whether levers seem to interact."""
        return diagnostics.additivity(self.state)

    @cached_property
    def evidence(self) -> list[evidence.FactorEvidence]:
        """How strong the evidence is for each factor."""
        return evidence.evidence(self.state)

    def _imported(self, used: int) -> int:
        return sum(len(past.values) for past in self.state.past[:used])


AHEAD = ("leading", "chosen")
"""How the levels that are ahead stand."""


@dataclass(frozen=True, eq=False)
class Facts:
    """A title, a caption, what is shown in words, and the data as a table.

    `struck` are rows of the table about what was ruled out. `nothing` says why there is nothing to draw, if so.
    """

    title: str
    caption: str
    alt: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    struck: frozenset[int] = field(default_factory=frozenset)
    nothing: str | None = None


def nothing_yet(title: str, why: str, seen: Seen) -> Facts:
    """What is said when there is nothing to show, with what to do."""
    text = f"There is nothing to show yet: {why}"
    block = seen.state.open_block
    told, to_go = seen.state.n_complete, block.n_missing if block else 0
    rows: list[tuple[str, ...]] = [("outcomes told", str(told)), ("runs to go in this block", str(to_go))]
    caption = f"{told} outcomes told, {to_go} to go in this block."
    return Facts(title, caption, text, ("what", "runs"), rows, nothing=text)


def struck_rows(rows: Sequence[EffectRow]) -> frozenset[int]:
    """Where the levels that were ruled out are."""
    return frozenset(i for i, row in enumerate(rows) if row.standing == "ruled out")


def cut_note(n_drawn: int, n_rows: int, which: str = "first") -> str:
    """A sentence for the caption when not all levels are drawn.

    >>> cut_note(100, 160), cut_note(16, 16)
    (' The first 100 of 160 levels are drawn.', '')
    """
    return f" The {which} {n_drawn} of {n_rows} levels are drawn." if n_drawn < n_rows else ""


def leaders(rows: Sequence[EffectRow], most: int = 8) -> str:
    """The leading levels in words."""
    found = [f"{clipped(row.factor)} {clipped(row.level)}" for row in rows if row.standing in AHEAD]
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")


EFFECTS_HEADER = ("factor", "level", "runs", "loss", "low", "high", "standing", "ruled out after")


def effects_facts(seen: Seen) -> Facts:
    """One row of the table for each level.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> effects_facts(Seen("oven", study.state)).nothing
    'There is nothing to show yet: no outcome was told. Ask for runs and tell their outcomes.'
    """
    title = f"{clipped(seen.name, MAX_TITLE)}: what each level loses against the {seen.lead} one"
    rows = seen.effects
    if not any(row.loss is not None and row.standing != seen.lead for row in rows):
        why = "the outcomes so far do not tell levels apart" if seen.state.n_complete else "no outcome was told"
        return nothing_yet(title, f"{why}. Ask for runs and tell their outcomes.", seen)
    alt = (
        f"Dot plot of what {len(rows)} levels lose. {seen.lead.capitalize()}: {leaders(rows)}. "
        f"{sum(row.standing == 'ruled out' for row in rows)} levels are ruled out."
    )
    return Facts(title, _effects_caption(seen), alt, EFFECTS_HEADER, [_cells(row) for row in rows], struck_rows(rows))


def _effects_caption(seen: Seen) -> str:
    spec = seen.state.spec
    if any(row.high is not None for row in seen.effects):
        caption = f"Bars hold all true losses at once with probability {100 * (1 - spec.failure_prob):g} %."
    elif spec.solver.certifies_early:
        caption = "Estimates from the first runs; intervals come with the first complete block."
    else:
        caption = f"Estimates without intervals: {spec.algorithm} gives none."
    if spec.tolerance is not None:
        caption += " The tolerance is for the losses of all factors together."
    return caption


def _cells(row: EffectRow) -> tuple[str, ...]:
    after = "" if row.ruled_out_after is None else f"{row.ruled_out_after} runs"
    numbers = (number(row.loss), number(row.low), number(row.high))
    return (plain(row.factor), plain(row.level), str(row.n_runs), *numbers, row.standing, after)


ELIMINATION_HEADER = ("factor", "level", "in play until run", "runs of this level", "standing")


def elimination_facts(seen: Seen) -> Facts:
    """One row of the table for each level.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> elimination_facts(Seen("oven", study.state)).title
    'oven: levels in play'
    """
    title = f"{clipped(seen.name, MAX_TITLE)}: levels in play"
    if len(seen.state.known) < 2:
        why = "levels are ruled out when a block of runs is complete. Ask for runs and tell their outcomes;"
        return nothing_yet(title, f"{why} {seen.forecast.now} are to go in this block.", seen)
    rows, now = seen.effects, seen.n_runs
    n_gone = sum(row.standing == "ruled out" for row in rows)
    caption = f"{n_gone} of {len(rows)} levels ruled out in {now:,} runs; a decision falls when a block is complete."
    alt = f"Bars of how long each of {len(rows)} levels was in play; {n_gone} were ruled out. Ahead: {leaders(rows)}."
    cells: list[tuple[str, ...]] = [
        (plain(row.factor), plain(row.level), str(row.ruled_out_after or now), str(row.n_runs), row.standing)
        for row in rows
    ]
    return Facts(title, caption, alt, ELIMINATION_HEADER, cells, struck_rows(rows))


FORECAST_HEADER = ("what", "runs", "at most so far from the best")


@dataclass(frozen=True, slots=True)
class Steps:
    """What was certified after each block, where the study is now, and between which runs it will end (or None)."""

    points: list[tuple[int, float]]
    now: int
    within: float
    tolerance: float | None
    end: tuple[int, int] | None

    @property
    def is_wide(self) -> bool:
        """Whether the tolerances need a logarithmic axis."""
        seen = [y for _, y in self.points] + ([] if self.tolerance is None else [self.tolerance])
        return min(seen) > 0 and max(seen) > 8 * min(seen)


@dataclass(frozen=True, slots=True)
class RunsOnly:
    """Runs so far, in the block under way, and after it in the worst case (None when there is no telling)."""

    now: int
    in_block: int
    rest: int | None


def forecast_facts(seen: Seen) -> tuple[Facts, Steps | RunsOnly | None]:
    """The facts, and what is to be drawn.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> facts, steps = forecast_facts(Seen("oven", study.state))
    >>> facts.title, steps
    ('oven: how far it is to the end', None)
    """
    title = f"{clipped(seen.name, MAX_TITLE)}: how far it is to the end"
    if not seen.state.spec.solver.certifies_early:
        return counted_facts(title, seen)
    points = [(n_runs, within) for n_runs, within in seen.steps if math.isfinite(within)]
    if not points:
        why = "nothing can be certified before a block of runs is complete. Ask for runs and tell their outcomes:"
        return nothing_yet(title, f"{why} {seen.forecast}.", seen), None
    return _certified(title, seen, points)


def _certified(title: str, seen: Seen, points: list[tuple[int, float]]) -> tuple[Facts, Steps]:
    now, (_, within), tolerance = seen.n_runs, points[-1], seen.state.spec.tolerance
    to_go, ended = seen.forecast, seen.state.open_block is None
    rows: list[tuple[str, ...]] = [("after a block", str(x), number(y)) for x, y in points]
    rows.append(("now", str(now), number(within)))
    end = None
    if not ended and to_go.likely is not None and to_go.worst_case is not None:
        end = (now + to_go.likely, now + to_go.worst_case)
        rows += [
            ("likely end", str(end[0]), number(tolerance)),
            ("end in the worst case", str(end[1]), number(tolerance)),
        ]
    sure = f"{100 * (1 - seen.state.spec.failure_prob):g} %"
    caption = f"After {now:,} runs the {seen.lead} setting is within {within:.4g} of the best with probability {sure}"
    caption += "." if ended else f"; {to_go}."
    facts = Facts(title, caption, f"Falling steps over runs. {caption}", FORECAST_HEADER, rows)
    return facts, Steps(points, now, within, tolerance, end)


def counted_facts(title: str, seen: Seen) -> tuple[Facts, RunsOnly | None]:
    """Runs only: algorithms other than cfs certify nothing before they end."""
    now, to_go, algorithm = seen.n_runs, seen.forecast, seen.state.spec.algorithm
    if not now:
        why = "no outcome was told. Ask for runs and tell their outcomes:"
        return nothing_yet(title, f"{why} {to_go_words(to_go)}.", seen), None
    reached = None if seen.verdict is None else seen.verdict.tolerance
    rows: list[tuple[str, ...]] = [("runs so far", str(now), number(reached))]
    if to_go.now:
        rows.append(("end of this block", str(now + to_go.now), number(None)))
    rest = None if to_go.worst_case is None else to_go.worst_case - to_go.now
    if to_go.worst_case is not None and rest:
        rows.append(("end in the worst case", str(now + to_go.worst_case), number(seen.state.spec.tolerance)))
    if seen.verdict is not None:
        caption = f"{algorithm} ended after {now:,} runs."
    else:
        caption = f"{algorithm} certifies nothing before it ends, so only runs are shown: {to_go_words(to_go)}."
    return Facts(title, caption, f"A bar of runs. {caption}", FORECAST_HEADER, rows), RunsOnly(now, to_go.now, rest)


def to_go_words(to_go: Forecast) -> str:
    """Runs to go of an algorithm that does not guess.

    >>> to_go_words(Forecast(12, None, 90))
    '90 runs to go in the worst case, 12 of them in this block'
    """
    if to_go.worst_case is None:
        return f"{to_go.now} runs to go in this block, then more"
    return f"{to_go.worst_case} runs to go in the worst case, {to_go.now} of them in this block"


MANY = 2000
"""From so many outcomes on, tables list blocks instead of outcomes."""


def history_facts(seen: Seen) -> Facts:
    """One row of the table for each outcome, or for each block when there are very many.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> study.tell(study.ask()[0], 3.5)
    >>> facts = history_facts(Seen("oven", study.state))
    >>> facts.caption, facts.rows
    ('1 outcomes in 1 blocks; dotted lines divide blocks.', [('1', '0', '0', 'screening', '3.5')])
    """
    title = f"{clipped(seen.name, MAX_TITLE)}: outcomes in the order of telling"
    values = seen.outcomes.values
    if not len(values):
        return nothing_yet(title, "no outcome was told. Ask for runs and tell their outcomes.", seen)
    caption = _history_caption(seen)
    alt = f"Scatter plot of {len(values)} outcomes from {values.min():.4g} to {values.max():.4g}. {caption}"
    return Facts(title, caption, alt, *_table(seen))


def _history_caption(seen: Seen) -> str:
    n, leader = seen.outcomes.n_outcomes, seen.best
    caption = f"{n:,} outcomes in {len(seen.state.blocks)} blocks; dotted lines divide blocks."
    if leader is not None and leader.predicted is not None:
        caption += f" At the best setting {leader.predicted:.4g} is predicted, {leader.low:.4g} to {leader.high:.4g}."
    past = sum(len(p.values) for p in seen.state.past)
    return caption + (f" {past:,} imported runs are not shown." if past else "")


def _table(seen: Seen) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    found = seen.outcomes
    stages = [plain(block.batch.stage) for block in seen.state.blocks]
    rows: list[tuple[str, ...]] = []
    if found.n_outcomes <= MANY:
        each = zip(found.trials.tolist(), found.blocks.tolist(), found.values.tolist(), strict=True)
        rows += [(str(i), str(t), str(b), stages[b], number(value)) for i, (t, b, value) in enumerate(each, 1)]
        return ("run", "trial", "block", "stage", "outcome"), rows
    for (begin, end), mean in zip(found.spans, found.means, strict=True):
        here, block = found.values[begin:end], int(found.blocks[begin])
        ends = (number(float(here.min())), number(float(here.max())))
        rows.append((str(block), stages[block], f"{begin + 1} to {end}", number(mean), *ends))
    return ("block", "stage", "runs", "mean", "smallest", "largest"), rows
