"""What the tools of agents do, and what they say: a few lines for a model to read, and the same as data.

A tool is an operation of the HTTP API (`levers.web.api`): the same input, the same roles, the same answer. What is
added here are words, and what to do next.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from levers.algorithms.base import Remark
from levers.charts.check_facts import check_rows
from levers.charts.html import page_text
from levers.charts.report import save_report, study_report
from levers.charts.view import StudyView
from levers.core.outcome_scale import EVERY_SCALE
from levers.errors import InvalidSettingError, surprising
from levers.studies.analysis import views
from levers.studies.analysis.confirmation import confirmation_words
from levers.studies.analysis.describe import (
    CONFIRMATIONS,
    and_fresh,
    chance,
    enough_words,
    expected_words,
    gain_words,
    promise,
    setting_words,
    several,
)
from levers.studies.outcomes import Surprise
from levers.studies.sheets.cells import level_text
from levers.studies.study import Study
from levers.web.api import results, runs, studies
from levers.web.api.deps import service_of, study_of
from levers.web.api.schemas import Ask, BestShape, RemarkShape, TrialShape

MOST_TRIALS = 200
"""The most runs that one call of `ask` gives: more of them than an agent should have to remember."""
MOST_ROWS = 500
"""The most rows of a table in an answer."""
MOST_TEXT = 24_000
"""The most characters of a report in an answer."""
_MOST_LINES = 40
ANSWERS = (
    "correct (mistyped), exclude (must not count), restate (noise_sd=null: not known), go_on (more runs) or finish"
)
"""How a doubt can be answered."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that is called: who asks (in the request), about which study, with what; `local` is the same machine."""

    request: Request
    name: str
    body: Any
    local: bool

    @property
    def at(self) -> str:
        """The study's name as operations of the API get it: as a part of an address."""
        return self.name.replace("%", "%25").replace("/", "%2F")

    def study(self, role: str = "read") -> Study:
        """The study, if whoever asks may."""
        return study_of(self.request, self.at, role)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool says: a few lines for a model to read, and the same as data."""

    text: str
    data: dict[str, Any]


def _plain(value: Any, kind: Any = None) -> Any:
    """A value as plain JSON; numbers that JSON does not have are null."""
    return json.loads(TypeAdapter(kind or type(value)).dump_json(value))


def _said(response: Response) -> dict[str, Any]:
    """What an operation of the API answers."""
    found: dict[str, Any] = json.loads(bytes(response.body))
    return found


def _lines(*lines: str | None) -> str:
    return "\n".join(line for line in lines if line)


def _doubt_lines(doubts: Iterable[Remark]) -> list[str]:
    return [f"IN DOUBT: {doubt.text}" for doubt in doubts]


def next_step(study: Study) -> str:
    """What to do now, for somebody who may have forgotten.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=0.1, seed=1)
    >>> next_step(study)
    'Next: ask. 7 runs to go; 7 in this round.'
    >>> study.tell_many((trial, float(trial.params["heat"] == "high")) for trial in study.ask(100))
    7
    >>> next_step(study)
    'Next: verdict. No runs are left: the study is finished. Report its guarantee with provisos and doubts.'
    """
    status = study.status()
    if status.state == "finished":
        return "Next: verdict. No runs are left: the study is finished. Report its guarantee with provisos and doubts."
    if status.state == "in doubt":
        return (
            "Next: verdict. No runs are left, and outcomes contradict what the guarantee rests on. "
            f"Find out what happened and tell the user; then answer with {ANSWERS}."
        )
    if status.n_waiting:
        out = "" if not status.n_running else f" {several(status.n_running, 'run is', 'runs are')} out and not told."
        return f"Next: ask. {status.to_go}.{out}"
    listed = ", ".join(f"{one.number} ({one.worker})" for one in study.running()[:10])
    more = f" and {status.n_running - 10} more" if status.n_running > 10 else ""
    return (
        f"Next: make the runs that are out, and tell or fail them: trials {listed}{more}. "
        "What comes next depends on their outcomes."
    )


def list_studies(call: Call) -> Answer:
    """Where each study stands."""
    data = _said(studies.list_studies(call.request, call.body.offset, call.body.limit))
    rows = [f"{one['name']}: {one['state']}, {several(one['n_complete'], 'run', 'runs')}" for one in data["items"]]
    return Answer(_lines(f"{several(data['total'], 'study', 'studies')}.", *rows), data)


def plan(call: Call) -> Answer:
    """How many runs it takes, or what a budget does."""
    data = _said(studies.make_plan(call.request, call.body))
    known = "" if data["noise_known"] else ", which is a guess: the study learns the noise, and runs go with its square"
    said = EVERY_SCALE[data["scale"]].said
    lines = [f"Reckoned with a noise of standard deviation {said(data['noise_sd'], 'g')}{known}."]
    if data["budget"] is None:
        sure = f"{100 * (1 - data['failure_prob']):.6g} %"
        lines += [
            f"To be within {said(data['tolerance'], 'g')} of the best with probability {sure}: about "
            f"{data['runs_if_few_matter']:,} runs if a few levers matter, {data['worst_case_runs']:,} at most.",
            f"One lever at a time would take {data['one_at_a_time_runs']:,} for the same precision.",
            *(
                f"Within {said(row['tolerance'], 'g')}: {row['runs']:,} runs of one design."
                for row in data["trade_off"]
            ),
        ]
    for row in data["budgets"]:
        tolerance, loss = row["tolerance"], row["loss"]
        certified = (
            "nothing is certified" if tolerance is None else f"certified within {said(tolerance, '.3g')} of the best"
        )
        typical = "" if loss is None else f"; the setting found typically loses {said(loss, '.3g')}"
        if row["typical_tolerance"] is not None:
            typical += f" and is certified within {said(row['typical_tolerance'], '.3g')}"
        lines.append(f"{row['runs']:,} runs that aim for certainty: {certified}{typical}.")
    data["next"] = "Next: tell the user, settle tolerance or budget with them, then create."
    return Answer(_lines(*lines, data["next"]), data)


def create(call: Call) -> Answer:
    """A new study."""
    data = _said(studies.create(call.request, call.body))
    study = Call(call.request, data["name"], None, call.local).study()
    data["next"] = next_step(study)
    on = ", on a log scale" if study.outcome_scale.is_log else ""
    created = f"Created {study.name!r}: {several(study.space.n_factors, 'lever', 'levers')}, {study.spec.goal}{on}."
    return Answer(_lines(created, data["next"]), data)


def ask(call: Call) -> Answer:
    """Runs to make, or what else is to do."""
    study, wanted = call.study("write"), call.body
    n = wanted.n or min(study.spec.block_size or 1, MOST_TRIALS)
    if wanted.again:
        due = study.running(wanted.worker or study.who)[: wanted.n or MOST_TRIALS]
        trials = [_plain(TrialShape.of(trial)) for trial in due]
    else:
        body = Ask(n=n, worker=wanted.worker, lease=wanted.lease)
        trials = _said(runs.ask(call.request, call.at, body))["trials"]
    if not trials:
        nothing = "You have no runs that were not told." if wanted.again else "There is nothing to run now."
        step = next_step(study)
        return Answer(_lines(nothing, step), {"trials": [], "next": step})
    step = "Next: make these runs in this order, all levers set exactly so; then tell every outcome, or fail the run."
    return Answer(_lines(*map(_run_words, trials), step), {"trials": trials, "next": step})


def _run_words(trial: dict[str, Any]) -> str:
    levels = ", ".join(f"{name}={level_text(level)}" for name, level in trial["params"].items())
    free = trial["free"]
    alone = f"; leave alone {', '.join(free)}, and tell as `observed` which level each took" if free else ""
    return f"trial {trial['trial']}: {levels}{alone}"


def tell(call: Call) -> Answer:
    """What was stored, and which outcomes are a surprise."""
    data = _said(runs.tell(call.request, call.at, call.body, call.body.insist))
    flags = [Surprise(**flag) for flag in data["flags"]]
    lines = [f"{several(data['n_new'] - data['n_failed'], 'new outcome', 'new outcomes')} stored."]
    if data["n_failed"]:
        lines.append(f"{several(data['n_failed'], 'run', 'runs')} without an outcome failed, to be asked for again.")
    if flags:
        lines.append(
            f"SURPRISE: {surprising(flags)}. Stored as told. Check how it was measured before you go on; correct what "
            "was mistyped, and leave what was measured as it is."
        )
    data["next"] = next_step(call.study())
    return Answer(_lines(*lines, data["next"]), data)


def fail(call: Call) -> Answer:
    """A run without an outcome."""
    data = _said(runs.fail(call.request, call.at, call.body))
    data["next"] = next_step(call.study())
    return Answer(_lines(f"Trial {data['trial']} failed; its run will be asked for again.", data["next"]), data)


def correct(call: Call) -> Answer:
    """Other outcomes, and which decisions change."""
    data = _said(runs.correct(call.request, call.at, call.body))
    return _changed(call, f"{several(len(data['corrections']), 'outcome', 'outcomes')} corrected.", data, "corrections")


def exclude(call: Call) -> Answer:
    """Outcomes that do not count, and which decisions change."""
    data = _said(runs.exclude(call.request, call.at, call.body))
    lines = f"{several(len(data['exclusions']), 'outcome does', 'outcomes do')} not count; the verdict will say so."
    return _changed(call, lines, data, "exclusions")


def _changed(call: Call, said: str, data: dict[str, Any], key: str) -> Answer:
    changes = data[key][-1].get("changes") or ["no decision changes"]
    study = call.study()
    data["next"] = next_step(study)
    return Answer(_lines(said, *changes, *_doubt_lines(study.status().doubts), data["next"]), data)


def restate(call: Call) -> Answer:
    """Other terms."""
    return _course(call, runs.restate)


def go_on(call: Call) -> Answer:
    """More runs after the end."""
    return _course(call, runs.go_on)


def confirm(call: Call) -> Answer:
    """Fresh runs at the verdict's setting."""
    return _course(call, runs.confirm)


def finish(call: Call) -> Answer:
    """The end, now."""
    return _course(call, runs.finish)


def _course(call: Call, operation: Callable[..., Response]) -> Answer:
    """A change of a study's course."""
    data = _said(operation(call.request, call.at, call.body))
    data["next"] = next_step(call.study())
    return Answer(_lines(*data["changes"], data["next"]), data)


def status(call: Call) -> Answer:
    """Where the study stands, and what to do next."""
    study = call.study()
    status, best = study.status(), study.best()
    data = {**_plain(status), "best": _plain(BestShape.of(best)), "next": next_step(study)}
    told = f"{several(status.n_complete, 'outcome', 'outcomes')}{and_fresh(status.n_fresh)}"
    lines = [f"{status.name}: {status.state}; {told}; {status.to_go}"]
    lines += [] if status.confirmation is None else [CONFIRMATIONS[status.confirmation]]
    lines += _doubt_lines(status.doubts)
    if best is not None:
        finished = status.state != "running"
        lines.append(f"{'chosen' if finished else 'leading, not the answer yet'}: {setting_words(best.params)}")
        lines.append(_promise_words(study, best, finished))
    return Answer(_lines(*lines, status.note, data["next"]), data)


def _promise_words(study: Study, best: views.Best, finished: bool) -> str:
    within, unclaimed = best.said()
    sure = f"{100 * (1 - study.spec.failure_prob):.6g} %"
    return promise(within, sure, finished, best.in_doubt, best.compared_with, unclaimed)


def effects(call: Call) -> Answer:
    """What each level loses, as far as it is listed."""
    study = call.study()
    rows, doubts = study.effects(), study.status().doubts
    shown = rows[:MOST_ROWS]
    data = {"effects": _plain(shown, list[views.EffectRow]), "n_levels": len(rows), "doubts": _remarks(doubts)}
    tied = study.part_effects()[:MOST_ROWS]
    data |= {"scale": study.spec.scale, "part_effects": _plain(tied, list[views.EffectRow])}
    said = (*shown[:_MOST_LINES], *tied[:_MOST_LINES])
    lines = [f"{row.factor}={level_text(row.level)}: {row.standing}{_loss_words(row)}" for row in said]
    more = f"The data has {len(shown):,} of {len(rows):,} levels." if len(rows) > _MOST_LINES else None
    about = "Loss against the leading level; intervals hold for all levels at once. Not shown is not the same as none."
    return Answer(_lines(*_doubt_lines(doubts), about, *lines, more), data)


def _loss_words(row: views.EffectRow) -> str:
    if row.loss is None or row.standing in ("leading", "chosen"):
        return ""
    said = EVERY_SCALE[row.scale].said
    span = "" if row.low is None or row.high is None else f" ({said(row.low)} to {said(row.high)})"
    return f", loses {said(row.loss)}{span}"


def _remarks(remarks: Iterable[Remark]) -> list[dict[str, Any]]:
    return [_plain(RemarkShape.read(one)) for one in remarks]


def checks(call: Call) -> Answer:
    """Whether the outcomes look as assumed."""
    study = call.study()
    rows = check_rows(StudyView(study.name, study.frozen()))
    doubts = study.status().doubts
    data = {"checks": _plain(rows, list[Any]), "doubts": _remarks(doubts)}
    lines = [f"{row.kind}: {row.text if row.alarms else 'nothing found'} ({chance(row.p_value)})" for row in rows]
    if not rows:
        lines = ["There are too few runs to check anything."]
    return Answer(_lines(*_doubt_lines(doubts), *lines), data)


def verdict(call: Call) -> Answer:
    """The setting and all that is to be said with it."""
    data = _said(results.verdict(call.request, call.at))
    study = call.study()
    found, best = study.verdict(), study.best()
    assert best is not None  # of a study that has a verdict
    lines = _doubt_lines(found.doubts)
    lines.append(f"{'The setting, in doubt:' if found.doubts else 'Set'} {setting_words(best.params)}.")
    lines += [f"Promise: {found.promise} ({found.goal}).", f"It rests on: {found.statement}."]
    if (enough := enough_words(found)) is not None:
        lines.append(f"{enough[0].upper()}{enough[1:]}.")
    if best.predicted is not None:
        expected = f"{best.predicted:.4g} ({best.low:.4g} to {best.high:.4g})"
        lines.append(f"{expected_words(study.outcome_scale).capitalize()} to expect there: {expected}.")
    if best.gain is not None:
        words = gain_words(best.gain, True, study.spec.baseline_outcome, study.outcome_scale)
        lines.append(f"{words[0].upper()}{words[1:]}.")
    for line in () if found.confirmation is None else confirmation_words(found.confirmation):
        lines.append(f"{line[0].upper()}{line[1:]}.")
    asked = study.spec.tolerance
    if asked is not None and found.within > asked:
        lines.append(f"Less than was asked for: {study.outcome_scale.said(asked, 'g')}.")
    lines.append(f"Runs: {found.n_runs}.")
    step = "Next: report all of this to the user: setting, promise, everything that it rests on, and doubts first."
    if study.is_held:
        step += f" The study waits for an answer to its doubts: {ANSWERS}."
    return Answer(_lines(*lines, step), {**data, "promise": found.promise, "next": step})


def report(call: Call) -> Answer:
    """The report as text, or as a file."""
    study, path = call.study(), call.body.path
    if path is not None:
        return _written(call, study, Path(path))
    text = page_text(study_report(study))
    cut = len(text) > MOST_TEXT
    if cut:
        text = f"{text[:MOST_TEXT].rpartition(chr(10))[0]}\n\n(cut here; the page has all of it)"
    return Answer(text, {"name": study.name, "is_cut": cut, "text": text})


def _written(call: Call, study: Study, path: Path) -> Answer:
    if not call.local:
        raise InvalidSettingError("a path is for a server on your own machine (stdio); leave it out", field="path")
    service_of(call.request).allow(call.request, "write")
    if path.exists():
        raise InvalidSettingError(f"{path} is there already; give the path of a new .html file", field="path")
    save_report(study, path)
    where = str(path.resolve())
    return Answer(f"Wrote {where}", {"name": study.name, "path": where})
