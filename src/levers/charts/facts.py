"""What every chart says: its words, its table and the numbers to draw. Drawings only draw what is here.

The facts of the charts that check what a promise rests on are in `check_facts`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from levers.charts import looks
from levers.charts.looks import SERIES, Look
from levers.charts.svg import clipped, plain, short
from levers.charts.view import Outcomes, StudyView
from levers.core.outcome_scale import EVERY_SCALE, OutcomeScale
from levers.studies.analysis.describe import promise, several, stage_words
from levers.studies.analysis.views import EffectRow

TABLE_HAS_ALL = "The table has all."
"""Said of a drawing that leaves something out, where its table is shown."""

T = TypeVar("T")
Row = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Facts(Generic[T]):
    """A heading, a caption, what is shown in words (`alt`), a table, and the `data` to draw.

    Without data there is nothing to draw, and `alt` says why and what to do. `study` is the name of the study, clipped;
    empty when the chart is about several. `struck` are the rows of the table about levels that were ruled out.
    `in_table` is what to add to the caption where the table is shown: that it has more than the drawing.
    """

    study: str
    heading: str
    caption: str
    alt: str
    header: Row
    rows: Sequence[Row]
    data: T | None = None
    struck: frozenset[int] = frozenset()
    in_table: str = ""

    @property
    def title(self) -> str:
        """For a picture that stands alone."""
        return f"{self.study}: {self.heading}" if self.study else self.page_title

    @property
    def page_title(self) -> str:
        """On a page, which has the study's name above it anyway."""
        return self.heading[:1].upper() + self.heading[1:]


def number(value: float | None, scale: OutcomeScale | None = None) -> str:
    """A number in a table: an outcome, or with the scale of outcomes an amount such as a loss.

    >>> number(1 / 3), number(None), number(0.125, OutcomeScale("log"))
    ('0.333333', 'not known', '12.5 %')
    """
    if value is None:
        return "not known"
    return f"{value + 0.0:.6g}" if scale is None else scale.said(value, ".6g")


def listed(names: Sequence[str], most: int = 8) -> str:
    """Some names in words, not too many.

    >>> listed(["heat", "speed", "zone"], most=2)
    'heat, speed and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def nothing_yet(heading: str, why: str, view: StudyView) -> Facts[Any]:
    """What is said when there is nothing to show, with what to do."""
    told, block = view.state.n_complete, view.state.open_block
    to_go = block.n_missing if block else 0
    caption = f"{several(told, 'outcome', 'outcomes')} told, {to_go:,} to go in this round."
    text = f"There is nothing to show yet: {why}"
    rows = [("outcomes told", str(told)), ("runs to go in this round", str(to_go))]
    return Facts(view.title, heading, caption, text, ("what", "runs"), rows)


# ---- levels: what each loses, and how long it was in play


@dataclass(frozen=True, slots=True)
class LevelMark:
    """A level to draw: its numbers, the names of its factor and of itself on one line, and words to show over it."""

    row: EffectRow
    factor: str
    level: str
    words: str


@dataclass(frozen=True, slots=True)
class Levels:
    """Every level, the runs so far, the tolerance, and the words for it and for the axis.

    On a log scale losses and the tolerance are in percent.
    """

    marks: Sequence[LevelMark]
    now: int
    tolerance: float | None
    tolerance_words: str = ""
    axis: str = "estimated loss (right of zero is worse)"

    def end_of(self, mark: LevelMark) -> int:
        """For how many runs a level was in play."""
        return self.now if mark.row.ruled_out_after is None else mark.row.ruled_out_after


def cut_note(n_drawn: int, n_rows: int) -> str:
    """A sentence for the caption when not all levels are drawn.

    >>> cut_note(100, 160), cut_note(16, 16)
    (' The first 100 of 160 levels are drawn.', '')
    """
    return f" The first {n_drawn} of {n_rows} levels are drawn." if n_drawn < n_rows else ""


def doubt_note(view: StudyView) -> str:
    """A sentence for the caption of what rests on assumptions that outcomes contradict."""
    return " In doubt: outcomes contradict what this rests on." if view.in_doubt else ""


def effects_facts(view: StudyView) -> Facts[Levels]:
    """What each level loses.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> effects_facts(StudyView("oven", study.state)).alt
    'There is nothing to show yet: no outcome was told. Ask for runs and tell their outcomes.'
    """
    heading, rows = f"what each level loses against the {view.lead} one", view.effects
    if not [row for row in rows if row.loss is not None and row.standing != view.lead]:
        why = "the outcomes so far do not tell levels apart" if view.state.n_complete else "no outcome was told"
        if view.is_finished:
            caption = f"{view.n_runs:,} runs are too few to tell levels apart."
            return Facts(view.title, heading, caption, caption, ("what", "runs"), [("runs made", str(view.n_runs))])
        return nothing_yet(heading, f"{why}. Ask for runs and tell their outcomes.", view)
    header: Row = ("lever", "level", "runs", "loss", "low", "high", "95 % alone: low", "95 % alone: high")
    header += ("standing", "ruled out after")
    words, cells, scale = [], [], view.state.spec.outcome_scale
    for row in rows:
        loss, low, high = (number(one, scale) for one in (row.loss, row.low, row.high))
        after = "" if row.ruled_out_after is None else f"{row.ruled_out_after} runs"
        usual = (number(row.usual_low, scale), number(row.usual_high, scale))
        cells.append((str(row.n_runs), loss, low, high, *usual, row.standing, after))
        span = "" if row.low is None or row.high is None else f", between {low} and {high}"
        span += "" if row.usual_low is None or row.loss == 0 else f" (alone {usual[0]} to {usual[1]})"
        loses = "loss not known" if row.loss is None else f"loses {loss}{span}"
        when = f" after {after}" if after and row.loss is not None else ""
        words.append(f"{row.standing}{when}, {loses}, {row.n_runs} runs")
    n_gone = sum([row.standing == "ruled out" for row in rows])
    ahead = f"{view.lead.capitalize()}: {_ahead(rows)}. {n_gone} levels are ruled out."
    alt = f"Dot plot of what {len(rows)} levels lose. {ahead}"
    found = _of_levels(view, heading, _effects_caption(view), alt, header, words, cells)
    if not view.part_effects:
        return found
    more = "Levers that are tied together come once more at the end of the table, each by itself."
    return replace(found, rows=[*found.rows, *map(_part_cells, view.part_effects)], in_table=more)


def _part_cells(row: EffectRow) -> Row:
    """A level of a tied lever by itself, in the table of effects: what holds for all at once is of combinations."""
    scale = EVERY_SCALE[row.scale]
    numbers = (number(row.loss, scale), "", "", number(row.usual_low, scale), number(row.usual_high, scale))
    return (plain(row.factor), plain(row.level), str(row.n_runs), *numbers, row.standing, "")


def _effects_caption(view: StudyView) -> str:
    spec = view.state.spec
    if [row for row in view.effects if row.high is not None]:
        caption = f"Thin bars hold all true losses at once with probability {100 * (1 - spec.failure_prob):g} %."
    elif spec.solver.certifies_early:
        caption = "Estimates from the first runs; intervals that hold all at once come with more of them."
    else:
        caption = f"Estimates without intervals: {spec.algorithm} gives none."
    if [row for row in view.effects if row.usual_low is not None and row.usual_low != row.usual_high]:
        caption += " Thick bars are ordinary 95 % intervals, each for its level alone."
    return caption + ("" if spec.tolerance is None else " The tolerance is for the losses of all levers together.")


def elimination_facts(view: StudyView) -> Facts[Levels]:
    """How long each level was in play."""
    heading, rows, now = "levels in play", view.effects, view.n_runs
    if len(view.state.known) < 2:
        why = "levels are ruled out when a round of runs is complete. Ask for runs and tell their outcomes;"
        return nothing_yet(heading, f"{why} {several(view.status.to_go.now, 'is', 'are')} to go in this round.", view)
    words, cells = [], []
    for row in rows:
        after = row.ruled_out_after
        words.append(f"{row.standing} after {now if after is None else after:,} runs")
        cells.append((str(after or now), str(row.n_runs), row.standing))
    n_gone = sum([row.standing == "ruled out" for row in rows])
    caption = f"{n_gone} of {len(rows)} levels ruled out in {now:,} runs; a decision falls when a round is complete."
    alt = f"Bars of how long each of {len(rows)} levels was in play; {n_gone} were ruled out. Ahead: {_ahead(rows)}."
    header = ("lever", "level", "in play until run", "runs of this level", "standing")
    return _of_levels(view, heading, caption, alt, header, words, cells)


def _of_levels(
    view: StudyView, heading: str, caption: str, alt: str, header: Row, words: Sequence[str], cells: Sequence[Row]
) -> Facts[Levels]:
    """Facts with a line of words and a row of the table for each level; the names of the levels come before both."""
    names = [(plain(row.factor), plain(row.level)) for row in view.effects]
    said = [f"{short(factor)}: {short(level)}, " for factor, level in names]
    scale, tolerance = view.state.spec.outcome_scale, view.state.spec.tolerance
    rows = [row.in_percent for row in view.effects] if scale.is_log else view.effects
    marks = [
        LevelMark(row, factor, level, before + text)
        for row, (factor, level), before, text in zip(rows, names, said, words, strict=True)
    ]
    table = [(*pair, *more) for pair, more in zip(names, cells, strict=True)]
    struck = frozenset([i for i, row in enumerate(view.effects) if row.standing == "ruled out"])
    data = Levels(marks, view.n_runs, drawn_amount(scale, tolerance), tolerance_words(scale, tolerance))
    if scale.is_log:
        data = replace(data, axis="estimated loss in percent (right of zero is worse)")
    return Facts(view.title, heading, caption + doubt_note(view), alt, header, table, data, struck)


def drawn_amount(scale: OutcomeScale, amount: float | None) -> float | None:
    """An amount as it is drawn: in percent on a log scale.

    >>> drawn_amount(OutcomeScale("log"), 0.05), drawn_amount(OutcomeScale(), 0.05)
    (5.0, 0.05)
    """
    return 100 * amount if scale.is_log and amount is not None else amount


def tolerance_words(scale: OutcomeScale, tolerance: float | None) -> str:
    """The entry of a legend."""
    return "" if tolerance is None else f"tolerance {scale.said(tolerance, 'g')}"


def _ahead(rows: Sequence[EffectRow]) -> str:
    """The leading levels in words."""
    return listed([f"{clipped(r.factor)} {clipped(r.level)}" for r in rows if r.standing in ("leading", "chosen")])


# ---- forecast: how far it is to the end

HOW_FAR = "how far from the best it can be"
FORECAST_HEADER = ("what", "runs", "at most so far from the best")


@dataclass(frozen=True, slots=True)
class Steps:
    """What was certified after each round, where the study is now, and between which runs it will end (or None).

    `words` has a line for each point, `look` is that of the last one; `log` says whether the tolerances need a
    logarithmic axis. On a log scale of the outcome tolerances are in percent.
    """

    points: Sequence[tuple[int, float]]
    words: Sequence[str]
    now: int
    now_within: float
    now_words: str
    tolerance: float | None
    end: tuple[int, int] | None
    look: Look
    log: bool
    tolerance_words: str = ""
    axis: str = HOW_FAR


@dataclass(frozen=True, slots=True)
class RunsOnly:
    """Numbers of runs after each other: so far, in the round under way, and after it in the worst case."""

    bars: list[tuple[Look, int]]


def is_wide(values: Sequence[float]) -> bool:
    """Whether numbers are so far apart that they need a logarithmic axis."""
    return min(values) > 0 and max(values) > 8 * min(values)


def forecast_facts(view: StudyView) -> Facts[Steps | RunsOnly]:
    """What could be certified after each round, and the runs still to go; only the runs where nothing can be."""
    heading = "how far it is to the end"
    if not view.state.spec.solver.certifies_early:
        return _counted(heading, view)
    points = [(n_runs, within) for n_runs, within in view.steps if math.isfinite(within)]
    if not points and view.is_finished:
        caption = f"{view.n_runs:,} runs certify nothing: they are too few to tell all levels apart."
        rows = [("runs made", str(view.n_runs), number(None))]
        return Facts(view.title, heading, caption, caption, FORECAST_HEADER, rows)
    within = view.status.within  # with what was told of the round under way
    if not points and within is None:
        why = "these runs are too few to certify anything. Ask for runs and tell their outcomes:"
        return nothing_yet(heading, f"{why} {view.status.to_go}.", view)
    now, spec = view.n_runs, view.state.spec
    within = points[-1][1] if within is None else within
    to_go, ended = view.status.to_go, view.is_finished
    scale = spec.outcome_scale
    rows = [("after a round", str(x), number(y, scale)) for x, y in points]
    rows.append(("now", str(now), number(within, scale)))
    end = None
    if not ended and to_go.likely is not None and to_go.worst_case is not None:
        end = (now + to_go.likely, now + to_go.worst_case)
        rows.append(("likely end", str(end[0]), number(spec.tolerance, scale)))
        rows.append(("end in the worst case", str(end[1]), number(spec.tolerance, scale)))
    sure = f"{100 * (1 - spec.failure_prob):g} %"
    of = "the best" if view.best is None else view.best.compared_with
    unclaimed = None if view.best is None else view.best.said()[1]
    said_now = promise(scale.certified(within), sure, ended, view.in_doubt, of, unclaimed)
    caption = f"After {now:,} runs, {said_now}"
    caption += "." if ended else f"; {to_go}."
    reached = [y for _, y in points] + [within] + ([] if spec.tolerance is None else [spec.tolerance])
    words = [f"after {x:,} runs: within {scale.certified(y)} of the best" for x, y in points]
    now_words = f"{'the verdict' if ended else 'now'}, {now:,} runs: within {scale.certified(within)} of the best"
    now_words += ", in doubt" if view.in_doubt else ""
    look = looks.DOUBTED if view.in_doubt else looks.VERDICT if ended else looks.NOW
    steps = Steps(points, words, now, within, now_words, spec.tolerance, end, look, is_wide(reached))
    steps = replace(steps, tolerance_words=tolerance_words(scale, spec.tolerance))
    if scale.is_log:
        points = [(x, 100 * y) for x, y in points]
        steps = replace(steps, points=points, now_within=100 * within, axis=f"{HOW_FAR}, in percent")
        steps = replace(steps, tolerance=drawn_amount(scale, spec.tolerance))
    return Facts(view.title, heading, caption, f"Falling steps over runs. {caption}", FORECAST_HEADER, rows, steps)


def _counted(heading: str, view: StudyView) -> Facts[Steps | RunsOnly]:
    """Runs only: these algorithms certify nothing before they end."""
    now, to_go, spec = view.n_runs, view.status.to_go, view.state.spec
    ahead, rest = str(to_go), 0
    if to_go.worst_case is not None:
        ahead = f"{several(to_go.worst_case, 'run', 'runs')} to go in the worst case, {to_go.now} of them in this round"
        rest = to_go.worst_case - to_go.now
    if not now:
        why = "no outcome was told. Ask for runs and tell their outcomes:"
        return nothing_yet(heading, f"{why} {ahead}.", view)
    caption = f"{spec.algorithm} certifies nothing before it ends, so only runs are shown: {ahead}."
    if view.verdict is not None:
        caption = f"{spec.algorithm} ended after {now:,} runs."
    scale, reached = spec.outcome_scale, None if view.verdict is None else view.verdict.tolerance
    rows = [("runs so far", str(now), number(reached, scale))]
    data = RunsOnly([(Look(f"runs so far: {now:,}", "c-lead", "bar"), now)])
    if to_go.now:
        rows.append(("end of this round", str(now + to_go.now), number(None)))
        data.bars.append((Look(f"in this round: {to_go.now:,}", "c-end", "hatch"), to_go.now))
    if rest:
        rows.append(("end in the worst case", str(now + to_go.now + rest), number(spec.tolerance, scale)))
        data.bars.append((Look(f"then in the worst case: {rest:,}", "c-gone", "empty"), rest))
    return Facts(view.title, heading, caption, f"A bar of runs. {caption}", FORECAST_HEADER, rows, data)


# ---- history: outcomes in the order of telling

MOST_ROWS = 2000
"""From so many outcomes on, tables list rounds instead of outcomes."""

MOST_DOTS = 400
"""From so many outcomes on, a page shows bins instead of outcomes."""


@dataclass(frozen=True, slots=True)
class History:
    """Outcomes with the names of all rounds' stages, and the mean expected at the best setting with its interval.

    `words` has a line for each outcome, unless they are too many to show one by one.
    """

    outcomes: Outcomes
    stages: Sequence[str]
    axis: str
    words: Sequence[str]
    mean_words: Sequence[str]
    predicted: tuple[float, float, float] | None
    predicted_words: str


@dataclass(frozen=True, eq=False)
class Bins:
    """Outcomes `edges[i]` to `edges[i + 1]` as their mean, range, middle half, and how many were set aside."""

    edges: NDArray[np.int64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    middle: NDArray[np.float64]
    n_aside: NDArray[np.int64]

    @classmethod
    def of(cls, found: Outcomes, n_bins: int) -> "Bins":
        """So many bins of about equal size.

        >>> values = np.array([1.0, 3.0, 5.0, 9.0])
        >>> found = Outcomes(np.arange(4), np.zeros(4, np.int32), values, np.zeros(4, bool), [0, 4])
        >>> Bins.of(found, 2).mean.tolist(), Bins.of(found, 2).words()[0]
        ([2.0, 7.0], 'runs 1 to 2: mean 2, from 1 to 3')
        """
        y, edges = found.values, np.linspace(0, len(found.values), n_bins + 1).astype(np.int64)
        at = edges[:-1]
        mean, low, high = (
            np.add.reduceat(y, at) / np.diff(edges),
            np.minimum.reduceat(y, at),
            np.maximum.reduceat(y, at),
        )
        halves = [np.quantile(y[a:b], (0.25, 0.75)) for a, b in zip(at, edges[1:], strict=True)]
        return cls(edges, mean, low, high, np.array(halves), np.add.reduceat(found.aside.astype(np.int64), at))

    def words(self) -> list[str]:
        """A line for each."""
        each = zip(self.edges[:-1], self.edges[1:], self.mean, self.low, self.high, self.n_aside, strict=True)
        return [
            f"runs {begin + 1:,} to {end:,}: mean {mean:.4g}, from {low:.4g} to {high:.4g}"
            + (f", {aside:,} set aside" if aside else "")
            for begin, end, mean, low, high, aside in each
        ]


def history_facts(view: StudyView) -> Facts[History]:
    """One row of the table for each outcome, or for each round when there are very many. Rounds count from 1.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> study.tell(study.ask()[0], 3.5)
    >>> facts = history_facts(StudyView("oven", study.state))
    >>> facts.caption, facts.rows
    ('1 outcome in 1 round; dotted lines divide rounds.', [('1', '0', '1', '', '3.5')])
    """
    heading, found, best = "outcomes in the order of telling", view.outcomes, view.best
    values, n = found.values, len(found.values)
    if not n:
        return nothing_yet(heading, "no outcome was told. Ask for runs and tell their outcomes.", view)
    predicted, predicted_words = None, ""
    size, rounds = view.state.spec.block_size, several(len(np.unique(found.blocks)), "round", "rounds")
    rounds += "" if size is None else f" (blocks of {size} runs)"
    caption = f"{several(n, 'outcome', 'outcomes')} in {rounds}; dotted lines divide rounds."
    if best is not None and best.predicted is not None and best.low is not None and best.high is not None:
        predicted = (best.low, best.predicted, best.high)
        low, mean, high = [number(value) for value in predicted]
        predicted_words = f"predicted at the best setting: {mean}, between {low} and {high}"
        caption += f" At the best setting {best.predicted:.4g} is predicted, {best.low:.4g} to {best.high:.4g}."
        caption += " It is the typical outcome, the median." if found.scale.is_log else ""
    n_past = sum([len(past.values) for past in view.state.past])
    caption += f" {several(n_past, 'imported run is', 'imported runs are')} not shown." if n_past else ""
    named = [stage_words(block.batch.stage) for block in view.state.blocks]
    stages = [plain(stage) if stage else "" for stage in named]
    blocks, means, spans = found.blocks.tolist(), found.means, found.spans
    texts = [number(value) for value in values.tolist()] if n <= MOST_ROWS else []
    mean_texts = [number(mean) for mean in means]
    each = list(zip(found.trials.tolist(), blocks, texts, found.aside.tolist(), strict=False))
    words = [
        f"run {i}, trial {trial}{_after(stages[block])}: {text}" + (", set aside" if aside else "")
        for i, (trial, block, text, aside) in enumerate(each if n <= MOST_DOTS else [], 1)
    ]
    of = "geometric mean" if found.scale.is_log else "mean"
    mean_words = [
        f"round {blocks[begin] + 1}: {of} {mean} of {end - begin:,} runs"
        for (begin, end), mean in zip(spans, mean_texts, strict=True)
    ]
    header: Row = ("run", "trial", "round", "stage", "outcome")
    rows: list[Row] = [(str(i), str(t), str(b + 1), stages[b], text) for i, (t, b, text, _) in enumerate(each, 1)]
    if n > MOST_ROWS:
        header = ("round", "stage", "runs", of, "smallest", "largest")
        for (begin, end), mean in zip(spans, mean_texts, strict=True):
            here, block = values[begin:end], blocks[begin]
            ends = (number(float(here.min())), number(float(here.max())))
            rows.append((str(block + 1), stages[block], f"{begin + 1} to {end}", mean, *ends))
    better = "larger" if found.scale.sign > 0 else "smaller"
    axis = f"outcome ({better} is better{', log scale' if found.scale.is_log else ''})"
    alt = f"Scatter plot of {n} outcomes from {values.min():.4g} to {values.max():.4g}. {caption}"
    data = History(found, stages, axis, words, mean_words, predicted, predicted_words)
    return Facts(view.title, heading, caption, alt, header, rows, data)


def _after(stage: str) -> str:
    return f", {stage}" if stage else ""


# ---- several studies side by side


@dataclass(frozen=True, slots=True)
class Line:
    """A study in a comparison: what was certified after so many runs, with words for each point."""

    name: str
    label: str
    points: Sequence[tuple[int, float]]
    words: Sequence[str]
    n_runs: int
    ended: bool


def compare_facts(views: Sequence[StudyView]) -> Facts[list[Line]]:
    """One line for each study: how far from the best its leading setting can be.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> compare_facts([StudyView("oven", study.state)]).rows
    [('oven', 'cfs', '0', 'not known', '1', 'running')]
    """
    lines = [_line(view) for view in views]
    rows = [_compare_cells(view) for view in views]
    drawn, without = [line for line in lines if line.points], [line.name for line in lines if not line.points]
    caption = "Lower and further left is better; a large mark is a verdict."
    if [view for view in views if view.state.spec.outcome_scale.is_log]:
        caption += " Studies on a log scale are drawn in percent."
    is_cut = len(drawn) > len(SERIES)
    if is_cut:
        caption += f" The first {len(SERIES)} of {len(drawn)} lines are drawn."
    if without:
        caption += f" Nothing certified yet: {', '.join(without[:8])}{' and more' if len(without) > 8 else ''}."
    steps = [
        f"{line.name} within {row[3]} after {row[2]} runs"
        for line, row, view in zip(lines, rows, views, strict=True)
        if view.steps
    ]
    alt = f"Falling steps over runs. {'; '.join(steps)}."
    if not drawn:
        what = "none of these studies has certified anything" if views else "choose studies to compare"
        alt = caption = (
            f"There is nothing to show yet: {what}. A line begins when the first round of runs of a study is complete."
        )
    heading = "How far from the best each study's setting can be"
    header = ("study", "algorithm", "runs", "at most so far from the best", "tolerance asked for", "state")
    in_table = TABLE_HAS_ALL if is_cut else ""
    return Facts("", heading, caption, alt, header, rows, drawn[: len(SERIES)] or None, in_table=in_table)


def _line(view: StudyView) -> Line:
    points, name = [(n_runs, within) for n_runs, within in view.steps if math.isfinite(within)], short(view.name)
    scale = view.state.spec.outcome_scale
    words = [f"after {n_runs:,} runs: within {scale.certified(within)}" for n_runs, within in points]
    points = [(n_runs, drawn_amount(scale, within) or 0.0) for n_runs, within in points]
    if words and view.is_finished:
        words[-1] = f"the verdict{', in doubt' if view.in_doubt else ''}, {words[-1]}"
    words = [f"{name}, {text}" for text in words]
    return Line(name, short(view.name, 30), points, words, view.n_runs, view.is_finished)


def _compare_cells(view: StudyView) -> Row:
    spec, scale = view.state.spec, view.state.spec.outcome_scale
    within = number(view.steps[-1][1] if view.steps else None, scale)
    asked = "none: a budget" if spec.tolerance is None else number(spec.tolerance, scale)
    within += ", in doubt" if view.in_doubt else ""
    return (plain(view.name), spec.algorithm, f"{view.n_runs}", within, asked, view.status.state)
