"""The report of a study: one page that needs no other file, to send, to print and to keep."""

import os
from collections.abc import Iterable, Sequence
from html import escape
from importlib.metadata import version

import numpy as np

from levers.algorithms.base import PAST
from levers.charts.check_facts import check_rows
from levers.charts.drawings import CHARTS, charts_of
from levers.charts.facts import number
from levers.charts.html import (
    LEVEL_HEADER,
    PART_HEADER,
    PARTS_WORDS,
    html_page,
    level_cells,
    part_cells,
    style_sheet,
    table,
)
from levers.charts.verdict_facts import MOST_LEVELS, VerdictFacts, verdict_facts
from levers.charts.view import StudyView
from levers.core.outcome_scale import EVERY_SCALE
from levers.core.space import Assignment
from levers.errors import InvalidSettingError
from levers.studies.analysis import views
from levers.studies.analysis.describe import (
    chance,
    expected_words,
    gain_words,
    promise,
    several,
    stage_words,
    when,
)
from levers.studies.run import AnyStudy
from levers.studies.sheets.cells import left_alone_text, level_text
from levers.studies.sheets.files import target_of, whole_file
from levers.studies.spec import LEAVE_ALONE
from levers.studies.state import CONFIRMATION, CONFIRMING, SET_ASIDE, Trial, TrialState

MOST_EVENTS = 2_000
"""The most events of the log that a report lists: the last ones."""
MOST_CHANGES = 200
"""The most corrections, and outcomes that do not count, that it lists."""
MOST_RUNS, MOST_OPEN = 2_000, 30
"""The most runs that it lists: the last ones; and the most that are not folded away."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing is loaded or run, whatever a name contains."""
_STYLE = """
:root { color-scheme: light dark; --good: #00664b; --bad: #a33c00; }
@media screen and (prefers-color-scheme: dark) { :root { --good: #4fd1a5; --bad: #ff9a5c; } }
body { color: var(--c-ink); background: var(--c-paper); font: 16px/1.5 system-ui, sans-serif; max-width: 58rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; }
h2 { font-size: 1.2rem; margin-top: 2.5rem; border-bottom: 1px solid var(--c-grid); }
p, li { max-width: 46rem; }
figure { margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; display: block;
  overflow-x: auto; }
th, td { border-bottom: 1px solid var(--c-grid); padding: .25rem 1.2rem .25rem 0; text-align: left;
  vertical-align: top; overflow-wrap: normal; } /* a narrow table scrolls: no number breaks in its middle */
summary { cursor: pointer; }
figcaption, .quiet { color: var(--c-muted); font-size: .88rem; }
.answer { border-left: .35rem solid var(--good); padding: .2rem 1rem; }
.doubt { border-left: .35rem solid var(--bad); padding: .2rem 1rem; }
code { overflow-wrap: anywhere; }
@media print { body { margin: 0; max-width: none; font-size: 10.5pt; } h2 { break-after: avoid; }
  figure, tr { break-inside: avoid; } th, td { overflow-wrap: anywhere; } /* paper neither scrolls nor unfolds */
  details::details-content { content-visibility: visible; } }
"""


def save_report(study: AnyStudy, path: str | os.PathLike[str]) -> None:
    """Write a study's report as one .html file. The file is there whole or not at all.

    >>> import levers, tempfile
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_report(study, f"{folder}/oven.html")
    ...     os.listdir(folder)
    ['oven.html']
    """
    target, _ = target_of(path, (".html", ".htm"), InvalidSettingError)
    content = study_report(study).encode("utf-8", "replace")
    with whole_file(target, InvalidSettingError) as file:
        file.write(content)


def study_report(study: AnyStudy) -> str:
    """The page: question, setting, guarantee and what it rests on, effects, eliminations, checks, history, log.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> "Not finished yet" in study_report(study)
    True
    """
    view = StudyView(study.name, study.frozen())
    said = verdict_facts(view)
    parts = [
        _answer(view, said),
        _section("What fresh runs say", *map(_sentence, said.confirmed), _chart(view, "confirmation"))
        if said.confirmed
        else "",
        _section("The question", _question(view)),
        _section("What the guarantee rests on", _listed(said.provisos), _facts(view, said)) if said.verdict else "",
        _section("What each level loses", _chart(view, "effects"), _levels(said)),
        _section("Which levers matter", _chart(view, "evidence"), _matter(said)),
        _section("What was ruled out, and when", _chart(view, "elimination"), _ledger(said)),
        _section("What could be certified after how many runs", _chart(view, "forecast")),
        _section("Checks of the outcomes", _checks(view), *_check_charts(view)),
        _section("Every outcome", _chart(view, "history"), _runs(view)),
        _section("What was changed by hand", _changes(view)),
        _section("The log", _log(study, view.state.head)),
    ]
    return html_page(f"Report of {study.name}", style_sheet() + _STYLE, _POLICY, "\n".join(filter(None, parts)))


def _section(title: str, *parts: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(filter(None, parts)) + "\n</section>"


def _listed(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>\n" for line in lines)
    return f"<ul>\n{items}</ul>" if items else ""


def _sentence(text: str) -> str:
    return f"<p>{escape(text[:1].upper() + text[1:])}.</p>"


def _setting(params: Assignment) -> str:
    rows = [(name, level_text(params[name]) if name in params else f"({LEAVE_ALONE})") for name in params.space.names]
    return table(["lever", "level"], rows)


def _answer(view: StudyView, said: VerdictFacts) -> str:
    """The setting and the promise, or how far it is; whatever speaks against it comes first."""
    best, doubts, spec = view.best, view.status.doubts, view.state.spec
    lines = [f'<section class="{"doubt" if doubts else "answer"}">']
    if doubts:
        lines.append(f"<h2>In doubt</h2>{_listed(doubt.text for doubt in doubts)}")
    title = "Not finished yet" if said.verdict is None else "The setting, in doubt" if doubts else "Set the levers so"
    lines.append(f"<h2>{title}</h2>")
    if said.verdict is None:
        lines.append(_sentence(f"{several(view.status.n_complete, 'run', 'runs')} so far, {view.status.to_go}"))
    if best is None:
        lines.append("<p>Too few outcomes are told to tell the levels apart, so nothing leads yet.</p>")
    else:
        lines.append(_setting(best.params if said.verdict is None else said.verdict.assignment))
        scale = spec.outcome_scale
        within, unclaimed = best.said()
        sure = f"{100 * (1 - spec.failure_prob):.6g} %"
        ended = said.verdict is not None
        said_now = promise(within, sure, ended, bool(doubts), best.compared_with, unclaimed)
        lines.append(f"<p><strong>{escape(said_now)}</strong> ({spec.goal}).</p>")
        if said.enough:
            lines.append(_sentence(said.enough))
        if best.predicted is not None:
            expected = f"{best.predicted:.4g} ({best.low:.4g} to {best.high:.4g})"
            lines.append(f"<p>{expected_words(scale).capitalize()} to expect there: {expected}.</p>")
        if best.gain is not None:
            lines.append(_sentence(gain_words(best.gain, ended, spec.baseline_outcome, scale)))
    return "\n".join([*lines, "</section>"])


def _question(view: StudyView) -> str:
    """What was asked for."""
    spec, status = view.state.spec, view.status
    said = spec.outcome_scale.said
    on = ", on a log scale: effects multiply" if spec.outcome_scale.is_log else ""
    close = "as good as the runs allow" if spec.tolerance is None else f"within {said(spec.tolerance, 'g')} of the best"
    asked = [
        ("goal", f"{spec.goal} the outcome{on}"),
        ("how close", close),
        ("how surely", f"with probability {100 * (1 - spec.failure_prob):.6g} %"),
        (
            "noise",
            "not known" if spec.noise_sd is None else f"standard deviation {said(spec.noise_sd, 'g')}, as stated",
        ),
        ("method", ", ".join([spec.algorithm, *(f"{name} {value}" for name, value in spec.options)])),
        ("seed", str(spec.seed)),
        ("begun", when(status.created_at)),
        ("last change", when(status.updated_at)),
    ]
    if spec.block_size is not None:
        asked.append(("runs a day", str(spec.block_size)))
    if spec.baseline is not None:
        today = ", ".join(f"{name}={level_text(level)}" for name, level in spec.space.assignment(spec.baseline).items())
        asked.append(("in place today", today))
    pairs = [" with ".join(f"{name} {level_text(level)}" for name, level in one) for one in spec.forbidden]
    merged = [" with ".join(group) for group in spec.merged]
    tied = {"hard to change": ", ".join(spec.hard_to_change), "may be left alone": ", ".join(spec.free)}
    tied |= {"cannot be run together": "; ".join(pairs), "studied as one": "; ".join(merged)}
    asked += [(what, which) for what, which in tied.items() if which]
    levers = [(f.name, ", ".join(level_text(level) for level in f.levels)) for f in spec.space.factors]
    return table(["asked for", ""], asked) + table(["lever", "levels"], levers)


def _facts(view: StudyView, said: VerdictFacts) -> str:
    found = said.verdict
    assert found is not None  # of a study that has ended
    rows = [("certificate", said.certificate), ("noise", said.noise)]
    n_fresh = view.status.n_fresh
    rows.append(("runs in all, without fresh ones" if n_fresh else "runs in all", f"{found.n_runs:,}"))
    for stage, n in said.stages:
        rows.append((stage_words(stage) or stage, several(n, "run", "runs") + ("" if stage == PAST else " of these")))
    if n_fresh:
        rows.append(("fresh ones on top, to confirm it", several(n_fresh, "run", "runs")))
    return table(["", ""], rows)


def _chart(view: StudyView, key: str) -> str:
    """A drawing with its caption, for a wide and for a narrow window."""
    wide, narrow = charts_of(view, [key])[0]
    if CHARTS[key].facts(view).data is None:
        return f'<p class="quiet">{escape(wide.facts.alt)}</p>'
    caption = f"<figcaption>{escape(wide.facts.caption)}</figcaption>"
    return f'<figure><div class="charts">{wide.svg}{narrow.svg}</div>{caption}</figure>'


def _check_charts(view: StudyView) -> list[str]:
    in_order = ["order"] if view.residuals.n_runs else []  # without residuals one chart says that there are none
    return [_chart(view, key) for key in ("residuals", *in_order, "additivity")]


def _levels(said: VerdictFacts) -> str:
    rows = level_cells(said.levels)
    more = f"<p>The first {MOST_LEVELS:,} of {said.n_levels:,} levels.</p>" if said.n_levels > len(rows) else ""
    below = _sentence(f"A loss below 0 is no mistake: {said.why_below_zero}") if said.why_below_zero else ""
    tied = ""
    if said.parts:
        tied = f"<p>{PARTS_WORDS}</p>" + table(PART_HEADER, part_cells(said.parts))
        tied += _sentence(said.parts_below_zero) if said.parts_below_zero else ""
    return table(LEVEL_HEADER, rows) + more + below + tied


def _matter(said: VerdictFacts) -> str:
    if said.verdict is None:
        return ""
    if said.verdict.parents is None:
        return "<p>This method does not look for them.</p>"
    found = f"Shown to matter: {', '.join(said.matter) or 'none'}"
    return _sentence(found) + _listed(f"{name}: {words}" for name, words in said.others)


def _ledger(said: VerdictFacts) -> str:
    if not said.ledger:
        return "<p>Nothing yet.</p>" if said.verdict is None else "<p>Nothing before the last decision.</p>"
    amount = EVERY_SCALE[said.scale].said
    rows = [(f"{n:,}", factor, level_text(level), amount(gap)) for factor, level, n, gap in said.ledger]
    return table(["after runs", "lever", "level", "estimated loss"], rows)


def _checks(view: StudyView) -> str:
    rows: Sequence[tuple[str, ...]] = [
        (row.kind, chance(row.p_value), f"{row.level:.2g}", row.text if row.alarms else "nothing found")
        for row in check_rows(view)
    ]
    if not rows:
        return "<p>There are too few runs to check anything.</p>"
    return table(["check", "outcomes like these", "alarms below", "found"], rows)


def _runs(view: StudyView) -> str:
    """Every run that was handed out: what was set, and what came of it."""
    state = view.state
    which = np.flatnonzero(state.trials.state[: state.trials.n_trials] != TrialState.WAITING)
    if not len(which):
        return ""
    names, trials = state.spec.space.names, list(views.trials(state, which[-MOST_RUNS:]))
    blocks = state.block_numbers(which[-MOST_RUNS:])
    rows = [
        (str(one.number), str(block), *(_level(one, name) for name in names), *_became(view, one))
        for one, block in zip(trials, blocks.tolist(), strict=True)
    ]
    header = ("trial", "round" if state.spec.block_size is None else "day", *names, "outcome", "state")
    first = f"<p>The last {MOST_RUNS:,} of {len(which):,} runs.</p>" if len(which) > MOST_RUNS else ""
    listed = first + table(header, rows)
    folded = f"<details><summary>Show the runs as a table</summary>\n{listed}\n</details>"
    return folded if len(rows) > MOST_OPEN else listed


def _level(trial: Trial, name: str) -> str:
    """The level of a lever in a run, and what it took where it was left alone."""
    if name in trial.params:
        return level_text(trial.params[name])
    return LEAVE_ALONE if trial.observed is None else left_alone_text(level_text(trial.observed[name]))


_STATES = {
    TrialState.RUNNING: "out",
    TrialState.COMPLETE: "told",
    TrialState.FAIL: "failed",
    TrialState.STALE: "not told in time",
    TrialState.ABANDONED: "not needed any more",
    TrialState.EXCLUDED: "excluded: does not count",
}


def _became(view: StudyView, trial: Trial) -> tuple[str, str]:
    """The outcome of a run; and what became of it, whether it is a fresh one, or was set aside."""
    role = view.state.blocks[view.state.trials.block[trial.number]].role
    apart = {SET_ASIDE: ", set aside", CONFIRMING: ", fresh", CONFIRMATION: ", fresh"}.get(role, "")
    return "" if trial.value is None else number(trial.value), _STATES[trial.state] + apart


def _changes(view: StudyView) -> str:
    state = view.state
    lines = [
        f"trial {one.trial}: {one.before:.10g} is now {one.value:.10g} ({one.reason}), {one.who}, {when(one.at)}"
        for one in state.corrections[-MOST_CHANGES:]
    ]
    lines += [
        f"trial {one.trial} does not count: {one.value:.10g} ({one.reason}), {one.who}, {when(one.at)}"
        for one in state.exclusions[-MOST_CHANGES:]
    ]
    lines += [f"restated: {one.text} ({one.reason}), {one.who}, {when(one.at)}" for one in state.restatements]
    if state.ended is not None:
        lines.append(f"ended by hand ({state.ended.reason}), {state.ended.who}, {when(state.ended.at)}")
    return _listed(lines) or "<p>Nothing.</p>"


def _log(study: AnyStudy, head: str) -> str:
    entries = study.log()
    rows = [(str(one.seq), when(one.at), one.who, one.what) for one in entries[-MOST_EVENTS:]]
    first = f"The last {MOST_EVENTS:,} of {len(entries):,} events. " if len(entries) > MOST_EVENTS else ""
    made = f"<p>{first}Made by levers {escape(version('levers'))}.</p>"
    keep = (
        f"<p>Digest of the last event: <code>{escape(head)}</code>. Kept elsewhere, as this page may be, it shows "
        "whether somebody has rewritten the log: <code>levers verify STUDY --head DIGEST</code>.</p>"
    )
    return made + keep + table(["event", "when", "who", "what"], rows)
