"""What the paper says about its main figure, and the figures of the released code."""

from collections.abc import Iterator

from scipy.special import bdtrik

from levers.experiments.reproduction.claims import Claim, Lines, claim, falls, same, span
from levers.experiments.reproduction.parents import panel

_NAME = "parents"
REFERENCE = {
    "modl": {1: 14865.0, 3: 13410.0, 5: 11839.0, 10: 7271.0},
    "oracle": {1: 579.0, 3: 1955.0, 5: 3571.0, 10: 7347.0},
}
"""Mean runs of the released formulas at K = 10 with interventions really applied, 20 worlds x 2."""


def parents_claims(lines: Lines) -> Iterator[Claim]:
    """All checks of this experiment."""
    panels = lines.panels()
    first = lines.pairs(panels, "parents-first", "modl")
    yield claim(
        _NAME,
        "modl beats parents-first",
        "MODL needs fewer runs than learning the parents first, in every setting.",
        f"parents-first / MODL: {span([p.runs / m.runs for p, m in first])}",
        all(p.runs > m.runs for p, m in first),
    )
    oracle = lines.pairs(panels, "oracle", "modl")
    yield claim(
        _NAME,
        "the oracle is the limit of modl",
        "Knowing the parents, MODL needs no more runs than without.",
        f"MODL / oracle: {span([m.runs / o.runs for o, m in oracle])}",
        all(o.runs <= m.runs or same(o, m) for o, m in oracle),
    )
    closer = [(m.runs - o.runs) < (p.runs - m.runs) for (o, m), (p, _) in zip(oracle, first, strict=True)]
    yield claim(
        _NAME,
        "modl is closer to the oracle",
        "The runs of MODL are closer to the oracle's than to those of parents-first.",
        f"{sum(closer)} of {len(closer)} points",
        all(closer),
        "at some points the distance to parents-first is the smaller one",
    )
    ratios = [m.runs / o.runs for o, m in oracle]
    yield claim(
        _NAME,
        "not knowing the parents costs little",
        "The penalty for not knowing the parents is relatively small (here: at most twice the oracle's runs).",
        f"MODL / oracle: {span(ratios)}",
        max(ratios) <= 2,
        "with few parents the oracle ignores most factors, and MODL has to estimate all of them",
    )
    for n_factors in (10, 30):
        for known in (False, True):
            yield from _falling(lines, panel(n_factors, known), known)
    yield from _all_parents(lines)
    gaps = [(p.gap, m.gap) for p, m in first]
    yield claim(
        _NAME,
        "parents-first has larger gaps",
        "The gaps of parents-first are consistently larger than those of MODL (here: at nine points of ten).",
        f"larger at {sum(p > m for p, m in gaps)} of {len(gaps)} points; "
        f"parents-first {span([p for p, _ in gaps])}, MODL {span([m for _, m in gaps])}",
        sum(p > m for p, m in gaps) >= 0.9 * len(gaps),
        "once interventions are really applied, both gaps are close to zero",
    )
    everybody = [
        m for name in ("modl", "parents-first", "oracle") for p in panels for m in lines.line(p, name).values()
    ]
    yield claim(
        _NAME,
        "gaps within the tolerance",
        "All average gaps are well below the tolerance of 0.5.",
        f"largest mean gap {max(m.gap for m in everybody):.3f}",
        max(m.gap for m in everybody) < 0.25,
    )
    modl = [m for p in panels for m in lines.line(p, "modl").values()]
    allowed = [float(bdtrik(0.999, m.n, 0.1)) for m in modl]
    yield claim(
        _NAME,
        "modl keeps its promise",
        "MODL is within the tolerance with probability 0.9.",
        f"failures in {sum(m.failures for m in modl)} of {sum(m.n for m in modl)} runs",
        all(m.failures <= most for m, most in zip(modl, allowed, strict=True)),
    )
    yield from _reference(lines)


def _falling(lines: Lines, where: str, known: bool) -> Iterator[Claim]:
    line = lines.line(where, "modl")
    found = falls(line) if len(line) > 1 else None
    yield claim(
        _NAME,
        f"runs fall with the number of parents ({where})",
        "The runs of MODL decrease with the number of parents.",
        "" if found is None else " / ".join(f"{runs:,.0f}" for runs in found[1]),
        None if found is None else found[0],
        "told the number of parents, MODL stops early when there are few of them" if known else "",
    )


def _all_parents(lines: Lines) -> Iterator[Claim]:
    ends = [
        (
            lines.line(panel(k, known), "modl")[k],
            lines.line(panel(k, known), "oracle")[k],
            lines.line(panel(k, known), "parents-first")[k],
        )
        for k in (10, 30)
        for known in (False, True)
        if k in lines.line(panel(k, known), "modl")
    ]
    yield claim(
        _NAME,
        "coincide when every factor is a parent",
        "With P_Y = K, MODL and the oracle are the same algorithm.",
        f"MODL / oracle at P_Y = K: {span([m.runs / o.runs for m, o, _ in ends], 4)}" if ends else "",
        all(same(m, o) for m, o, _ in ends) if ends else None,
    )
    yield claim(
        _NAME,
        "parents-first gains nothing from that",
        "Parents-first does not benefit from P_Y = K.",
        f"parents-first / MODL at P_Y = K: {span([p.runs / m.runs for m, _, p in ends])}" if ends else "",
        all(p.runs > 1.5 * m.runs for m, _, p in ends) if ends else None,
    )


def _reference(lines: Lines) -> Iterator[Claim]:
    for contender, known in REFERENCE.items():
        line = lines.line(panel(10, False), contender)
        both = [(p, line[p], reference) for p, reference in known.items() if p in line]
        # the reference's own error is about as large as ours: other worlds were drawn
        off = [(mean.runs - reference) / (mean.runs_se * 2**0.5) for _, mean, reference in both if mean.runs_se]
        yield claim(
            _NAME,
            f"agrees with the released formulas ({contender})",
            "Mean runs agree with the released formulas, interventions applied, within 3 standard errors.",
            "; ".join(f"P_Y = {p:.0f}: {mean.runs:,.0f} against {reference:,.0f}" for p, mean, reference in both),
            all(abs(z) <= 3 for z in off) if off else None,
        )
