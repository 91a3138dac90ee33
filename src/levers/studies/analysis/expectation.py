"""Outcomes far from what a study's runs lead one to expect: to be asked about while somebody can still look."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from levers.core.model.choices import Choices
from levers.core.model.expectation import Expectation, Limits
from levers.core.space import Codes
from levers.studies.analysis.estimates import counted_runs
from levers.studies.events import Numbers, Values
from levers.studies.outcomes import BY_FIT, BY_SPREAD, Surprise
from levers.studies.state import StudyState

_FRESH = 0.1  # more new outcomes than this share of those before are compared with each other too


@dataclass(frozen=True, eq=False, slots=True)
class Outlook:
    """What a study's runs so far say of further ones, kept between outcomes that come one by one.

    Working it out takes a fit. It serves as long as few outcomes are new, and nothing else has changed.
    """

    choices: Choices
    n_runs: int
    n_changes: int
    runs: Expectation

    @classmethod
    def of(cls, state: StudyState) -> "Outlook":
        """From the state."""
        choices = state.choices
        codes, values = counted_runs(state)
        sources = _sources(state, len(values))
        y = state.spec.outcome_scale.additive(values)
        runs = Expectation.of(choices.rows(codes), y, choices.sizes, state.spec.noise_sd, sources)
        return cls(choices, state.n_complete, _changes(state), runs)

    def serves(self, state: StudyState) -> bool:
        """Whether it can still be used."""
        most = self.n_runs * (1 + _FRESH)
        return _changes(state) == self.n_changes and self.n_runs <= state.n_complete <= most


def are_few(state: StudyState, n_new: int) -> bool:
    """Whether so many new outcomes are judged by those before alone, for which an `Outlook` can be kept."""
    return n_new <= 1 + _FRESH * state.n_complete


def surprises(
    state: StudyState, trials: Numbers, values: Values, outlook: Outlook | None = None
) -> tuple[Surprise, ...]:
    """Which outcomes of trials of the open block would be a surprise, before they are stored.

    Each is compared with all others, or with an `outlook`, which is of those before. A number that was stored before is
    no surprise: whoever stored it was asked. Outcomes of NaN are none. The fit says nothing of runs that leave levers
    alone, so these are compared with how the outcomes before lie.

    >>> from levers.studies.library import create_study
    >>> study = create_study("line", {"heat": ["low", "high"]}, tolerance=0.2, noise_sd=1.0, seed=1)
    >>> due = study.ask_numbers(7)
    >>> values = np.array([70.2, 71.0, 69.5, 70.4, 700.9, 71.3, 70.0])
    >>> [(one.trial, one.value) for one in surprises(study.state, due, values)]
    [(4, 700.9)]
    """
    told = ~np.isnan(values)
    trials, values = trials[told], values[told]
    if not len(values) or not state.blocks:
        return ()
    alone = (state.blocks[-1].batch.codes[state.trials.row[trials]] < 0).any(axis=1)
    if alone.any():
        left, others = _of_left_alone(state, trials[alone], values[alone], outlook), ~alone
        return (*surprises(state, trials[others], values[others], outlook), *left)
    choices = state.choices if outlook is None else outlook.choices
    rows = choices.rows(state.blocks[-1].batch.codes[state.trials.row[trials]])
    if outlook is None:
        limits = _together(state, choices, rows, values, 0)
    else:
        limits = outlook.runs.limits(rows, len(outlook.runs.codes) + state.n_complete - outlook.n_runs + len(values))
    found = _far(state, values, limits)
    return tuple(_surprise(state, int(trials[i]), values, limits, i) for i in found)


def _of_left_alone(state: StudyState, trials: Numbers, values: Values, outlook: Outlook | None) -> tuple[Surprise, ...]:
    """Surprises among runs that leave levers alone, by the middle and the spread of the runs before."""
    runs = (Outlook.of(state) if outlook is None else outlook).runs
    centre, half = runs.spreads(np.zeros(len(values), dtype=np.int64))
    limits = Limits(centre, half, np.zeros(len(values), dtype=np.bool_))
    return tuple(_surprise(state, int(trials[i]), values, limits, i) for i in _far(state, values, limits))


def past_surprises(
    state: StudyState, codes: Codes, values: Values, rows: Sequence[int] | None = None
) -> tuple[Surprise, ...]:
    """Which outcomes of runs that are to be imported would be a surprise: beside each other, and by the study's fit.

    An import may differ from the study by a constant. `rows` are the rows of the sheet that they come from.
    """
    inner = state.spec.contract(codes)
    if not len(values) or (inner < 0).any():  # combinations that are forbidden: the import is refused anyway
        return ()
    choices = state.choices
    limits = _together(state, choices, choices.rows(inner), values, len(state.past) + 1)
    found = _far(state, values, limits)
    places = range(1, len(values) + 1) if rows is None else rows
    return tuple(replace(_surprise(state, None, values, limits, i), row=int(places[i])) for i in found)


def _together(state: StudyState, choices: Choices, rows: Codes, values: Values, source: int) -> Limits:
    """What to expect of new runs by those before and by each other."""
    codes, told = counted_runs(state)
    before, values = (state.spec.outcome_scale.additive(y) for y in (told, values))
    everything = Expectation.of(
        np.concatenate([choices.rows(codes), rows]),
        np.concatenate([before, values]),
        choices.sizes,
        state.spec.noise_sd,
        np.concatenate([_sources(state, len(before)), np.full(len(values), source, dtype=np.int64)]),
    )
    return everything.limits(rows, len(before) + len(values), source, values, len(before))


def _sources(state: StudyState, n_runs: int) -> Numbers:
    """For each run that counts, 0 if the study asked for it, else the number of its import, from 1."""
    past = [np.full(len(one.values), i, dtype=np.int64) for i, one in enumerate(state.past, 1)]
    n_past = sum(map(len, past))
    return np.concatenate([np.zeros(n_runs - n_past, dtype=np.int64), *past])


def _changes(state: StudyState) -> int:
    return len(state.corrections) + len(state.exclusions) + len(state.restatements) + len(state.past)


def _far(state: StudyState, values: Values, limits: Limits) -> list[int]:
    """Places of the outcomes that are too far out, and that nobody has stored before."""
    away = np.abs(state.spec.outcome_scale.additive(values) - limits.centre)
    found: list[int] = np.flatnonzero(away > limits.half).tolist()
    if not found:
        return []
    stored = counted_runs(state)[1]
    known = np.isin(values[found], stored)
    return [i for i, seen in zip(found, known.tolist(), strict=True) if not seen]


def _surprise(state: StudyState, trial: int | None, values: Values, limits: Limits, i: int) -> Surprise:
    centre, half = float(limits.centre[i]), float(limits.half[i])
    how = BY_FIT if limits.by_fit[i] else BY_SPREAD
    expected, low, high = (state.spec.outcome_scale.told(one) for one in (centre, centre - half, centre + half))
    return Surprise(trial, float(values[i]), expected, low, high, how)
