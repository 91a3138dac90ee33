"""The tools that agents have, and what is said about them: a model does what it reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from levers.integrations import agent_answers
from levers.integrations.agent_answers import MOST_TRIALS, Answer, Call
from levers.web.api.schemas import (
    Confirm,
    CorrectMany,
    Exclude,
    Fail,
    Finish,
    GoOn,
    NewStudy,
    Outcome,
    Outcomes,
    PlanFor,
    Restate,
    Wire,
)
from levers.web.limits.admission import AGENTS_READS

INSTRUCTIONS = """\
levers finds the best setting of several levers (each with a few levels) of a system whose outcome is noisy, in as few \
runs as possible, and says when to stop and what it can promise. Use it in place of changing one thing at a time and \
keeping what looked best: that believes noise.

Workflow: plan -> create -> (ask, run, tell) until no runs are left -> verdict -> report.

1. Plan before anything is run, and say what the plan says: how many runs it takes, or what the runs that are \
available can do. Goal, levers, and a tolerance or a budget are the user's to choose. Leave noise_sd out unless it \
was measured; levers learns it.
2. Create the study once. This fixes the question before outcomes are seen.
3. Ask for runs and make every one of them, with all levers set exactly as asked and in the order asked: the order is \
random on purpose, so that drift does not look like an effect. Do not skip, repeat, reorder or replace runs.
4. Tell each outcome as it was measured. A run that gave none is failed, with the reason, and will be asked for again. \
Never invent, estimate, average, round or copy an outcome.
5. Never stop on luck. The best single outcome is mostly noise; do not recommend its setting. The setting to recommend \
is that of the estimates, which the verdict names; perhaps it was never run as a whole.
6. A surprise is an outcome far from what was expected. Check how it was measured; do not delete it. If it was \
mistyped, correct it. Exclude it only for a reason that has nothing to do with its value, and say so to the user.
7. At the end report the setting, how close to the best it is and with which probability, every proviso, and every \
doubt. If the verdict is in doubt, say that first. If nothing is certified, say that.

Lost track? `studies`, `status`, and `ask` with again=true, which gives the runs that you have not told."""


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool: its name, the role that it needs, what it takes, and what it does.

    `is_about_study` adds the study's name to what it takes. `repeats` says that doing it twice changes nothing more.
    `lane` is for a tool that takes long: over HTTP few of a lane are worked on at once.
    """

    name: str
    title: str
    role: str
    body: type[Wire]
    act: Callable[[Call], Answer]
    description: str
    is_about_study: bool = True
    repeats: bool = False
    lane: str = ""


class Nothing(Wire):
    """No further input."""


class ListStudies(Wire):
    """Which part of a long list."""

    offset: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=MOST_TRIALS)] = 50


class AskRuns(Wire):
    """How many runs, for whom."""

    n: Annotated[int, Field(ge=1, le=MOST_TRIALS)] | None = Field(
        default=None, description="How many runs at most; the study's block size if not given, or 1."
    )
    worker: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="Who makes the runs, if several agents share the study."
    )
    lease: Annotated[float, Field(gt=0, le=1e9)] | None = Field(
        default=None, description="Seconds after which runs that were not told go to whoever asks next."
    )
    again: bool = Field(default=False, description="The runs that you have not told, instead of new ones.")


class TellOutcomes(Outcomes):
    """Outcomes by the trials' numbers."""

    outcomes: Annotated[list[Outcome], Field(fail_fast=True, min_length=1)]
    insist: bool = Field(
        default=True, description="false: outcomes that are a surprise are refused, and nothing is stored."
    )


class WriteReport(Wire):
    """Where to."""

    path: str | None = Field(
        default=None, description="A new .html file for the whole page with its charts; only over stdio."
    )


_OF_STORAGE: dict[str, Any] = {"is_about_study": False}
TOOLS: Sequence[AgentTool] = (
    AgentTool(
        "plan",
        "Plan a study before anything is run",
        "read",
        PlanFor,
        agent_answers.plan,
        "Call this first. How many runs it takes to be within a tolerance of the best, or what a budget of runs "
        "certifies and typically achieves. Nothing is kept. Give a tolerance or a budget, and tell the user the "
        "answer before you create the study.",
        **_OF_STORAGE,
        repeats=True,
        lane="computing",
    ),
    AgentTool(
        "create",
        "Begin a study",
        "admin",
        NewStudy,
        agent_answers.create,
        "Begin a study, after plan. Levers with their levels, the goal, and a tolerance or a budget, as the user "
        "chose them: they are fixed before outcomes are seen. Leave noise_sd, max_parents and min_effect out unless "
        "they are known; the guarantee rests on them.",
        **_OF_STORAGE,
        lane="computing",
    ),
    AgentTool(
        "studies",
        "List the studies",
        "read",
        ListStudies,
        agent_answers.list_studies,
        "The studies that there are, and where each stands.",
        **_OF_STORAGE,
        repeats=True,
    ),
    AgentTool(
        "ask",
        "Get runs to make",
        "write",
        AskRuns,
        agent_answers.ask,
        "Runs to make now. Set all levers of each run exactly as asked, also those that seem not to matter, and keep "
        "the order: it is random on purpose. Make all of them. When nothing is left, `next` says what to do. With "
        "again=true, the runs that you have not told.",
    ),
    AgentTool(
        "tell",
        "Tell outcomes",
        "write",
        TellOutcomes,
        agent_answers.tell,
        "Tell what was measured, trial by trial: all are stored, or none. Only real measurements: never invent, "
        "estimate or copy an outcome; a run without one has the value null, or is told with `fail`. Telling the same "
        "twice is fine. Outcomes far from what was expected come back as `flags`: check them, do not delete them.",
        repeats=True,
    ),
    AgentTool(
        "fail",
        "Say that a run gave no outcome",
        "write",
        Fail,
        agent_answers.fail,
        "A run that crashed, timed out or could not be measured, with the reason. It will be asked for again. Do not "
        "use it for outcomes that are unwelcome.",
    ),
    AgentTool(
        "status",
        "Where a study stands",
        "read",
        Nothing,
        agent_answers.status,
        "Runs made, out and to go, the leading setting, doubts, and what to do next. A leading setting is not the "
        "answer: go on until there is a verdict.",
        repeats=True,
    ),
    AgentTool(
        "effects",
        "What each level loses",
        "read",
        Nothing,
        agent_answers.effects,
        "What each level loses against the leading one, with intervals that hold for all at once (low, high). These "
        "are estimates from all runs; single outcomes say little. Levers that forbidden combinations tie together are "
        "in part_effects too, each by itself.",
        repeats=True,
        lane=AGENTS_READS,
    ),
    AgentTool(
        "checks",
        "Whether the outcomes look as assumed",
        "read",
        Nothing,
        agent_answers.checks,
        "Checks of what the guarantee rests on: outliers, noise, spread, drift, shape, levers that act together; and "
        "the doubts that follow.",
        repeats=True,
        lane=AGENTS_READS,
    ),
    AgentTool(
        "verdict",
        "The answer and its guarantee",
        "read",
        Nothing,
        agent_answers.verdict,
        "The setting to use and what is promised about it; an error while runs are left. Report it whole: the "
        "setting, how close to the best and how surely, every proviso, and doubts first.",
        repeats=True,
        lane=AGENTS_READS,
    ),
    AgentTool(
        "report",
        "The whole report",
        "read",
        WriteReport,
        agent_answers.report,
        "Question, setting, guarantee, effects, checks, corrections and log as text; with a path, the page with its "
        "charts as a file to give to the user.",
        lane=AGENTS_READS,
    ),
    AgentTool(
        "correct",
        "Correct outcomes that were told wrong",
        "write",
        CorrectMany,
        agent_answers.correct,
        "Other outcomes for trials that were told wrong, and why: a typing error, a unit. Decisions are taken again. "
        "The log and the verdict say that it was done. Not for outcomes that were measured so.",
    ),
    AgentTool(
        "exclude",
        "Leave outcomes out that must not count",
        "write",
        Exclude,
        agent_answers.exclude,
        "Outcomes that must not count, for a reason that has nothing to do with their values, such as a broken "
        "sensor. The verdict says which and why, and how it would read with them. Ask the user first.",
    ),
    AgentTool(
        "restate",
        "Change the terms under way",
        "write",
        Restate,
        agent_answers.restate,
        "A tolerance in place of a budget or the other way round, or noise_sd=null if the stated noise is in doubt. "
        "Only what is sent changes. The verdict says that it was done. The user decides.",
    ),
    AgentTool(
        "go_on",
        "Go on after the end",
        "write",
        GoOn,
        agent_answers.go_on,
        "More runs after the verdict, to answer a doubt or to promise more; what is certified allows for it.",
    ),
    AgentTool(
        "confirm",
        "Confirm the verdict by fresh runs",
        "write",
        Confirm,
        agent_answers.confirm,
        "Fresh runs at the verdict's setting, and at the baseline if there is one; ask hands them out. Afterwards the "
        "verdict says confirmed or in doubt, with numbers. Worth its runs before something is changed for good. Report "
        "what it says, also if it is unwelcome.",
    ),
    AgentTool(
        "finish",
        "End a study now",
        "write",
        Finish,
        agent_answers.finish,
        "End a study before its time, with what is certified by the runs so far, or accept its doubts. Only when the "
        "user says so, or no more runs can be made: not because an outcome looks good.",
    ),
)
"""All tools, in the order in which they are listed."""
