"""How strong the evidence is that each factor matters."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from levers.core.model.fit import Fit
from levers.studies.analysis.estimates import Estimates
from levers.studies.analysis.views import certified
from levers.studies.state import StudyState


@dataclass(frozen=True, slots=True)
class FactorEvidence:
    """How strong the evidence is that a factor matters.

    `contrast` is what the better of two levels gains over the worse one; `radius` is what it must exceed to be shown,
    all factors together and whenever one looks; `ratio` is contrast / radius. `shown` says whether the verdict (so far)
    names the factor. Where there is no such radius, `t` describes the contrast in standard errors: it proves nothing.
    """

    factor: str
    better: Any
    worse: Any
    contrast: float | None
    radius: float | None
    ratio: float | None
    t: float | None
    shown: bool


def evidence(state: StudyState) -> list[FactorEvidence]:
    """How strong the evidence is for each factor, in the space as the algorithm sees it.

    Where a verdict has intervals the contrasts are those with the leading level, and the radius is theirs: all
    sum_k M_k (M_k - 1) ordered pairs hold at all times at once with the study's probability (docs/theory, section 5). A
    factor can be shown with a ratio below 1 if `max_parents` was given and a level was dropped at an earlier look.

    >>> from levers.studies.library import create_study
    >>> study = create_study("line", {"heat": ["low", "high"]}, tolerance=0.5, noise_sd=0.1, seed=1)
    >>> study.tell_many((trial, 2.0 * (trial.params["heat"] == "high")) for trial in study.ask(1000))
    7
    >>> [found] = evidence(study.state)
    >>> found.better, found.worse, found.ratio > 1, found.shown
    ('high', 'low', True, True)
    """
    found, spec = certified(state), state.spec
    proven = found is not None and bool(found.intervals)
    fit = None if proven else Estimates.of(state).fit
    shown = () if found is None or found.parents is None else found.parents
    rows = []
    for k, factor in enumerate(spec.merging.inner.factors):
        best = (
            _proof(found.assignment.codes[k], found.effects[k], found.intervals[k])
            if found is not None and proven
            else _description(fit, spec.noise_sd, k)
        )
        if best is None:
            rows.append(FactorEvidence(factor.name, None, None, None, None, None, None, factor.name in shown))
            continue
        better, worse, contrast, radius, ratio, t = best
        levels = factor.levels[better], factor.levels[worse]
        rows.append(FactorEvidence(factor.name, *levels, contrast, radius, ratio, t, factor.name in shown))
    return rows


_Found = tuple[int, int, float, float | None, float | None, float | None]  # better, worse, contrast, radius, ratio, t


_Span = tuple[float, float] | None


def _proof(leader: int, losses: tuple[float | None, ...], spans: tuple[_Span, ...]) -> _Found | None:
    """The comparison with the leading level that is closest to a proof, or furthest beyond it."""
    found: list[tuple[float, _Found]] = []
    for j, (loss, span) in enumerate(zip(losses, spans, strict=True)):
        if j != leader and loss is not None and span is not None:
            radius = (span[1] - span[0]) / 2
            ratio = abs(loss) / radius if radius > 0 else math.inf if loss else 0.0
            better, worse = (leader, j) if loss >= 0 else (j, leader)
            found.append((ratio, (better, worse, abs(loss), radius, ratio, None)))
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _description(fit: Fit | None, noise_sd: float | None, k: int) -> _Found | None:
    """The contrast of the most standard errors, from all runs."""
    if fit is None or (noise_sd is None and fit.residual_dof < 1):
        return None
    sd = noise_sd or math.sqrt(fit.residual_square / fit.residual_dof)
    if sd == 0:  # without noise there are no standard errors to count
        return None
    effects, errors = np.nan_to_num(fit.level_effects(k)), sd * np.sqrt(fit.variances(k))
    gains = effects[:, None] - effects[None, :]
    known = np.isfinite(errors) & (errors > 0)
    if not known.any():
        return None
    t = np.divide(gains, errors, out=np.full_like(gains, -np.inf), where=known)
    i, j = divmod(int(t.argmax()), len(t))
    return i, j, float(gains[i, j]), None, None, float(t[i, j])
