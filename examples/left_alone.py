"""Leave a lever alone: where something hidden drives it and the outcome, nature may set it better than anybody.

In the first world a lever follows a hidden coin, and the outcome gains when they agree: whoever sets the lever loses
what nature knows. The study finds that out, and says that something hidden is at work. In the second, something hidden
drives two levers but not the outcome. That does no harm: setting them is best, as the paper proves.
"""

from functools import partial

import numpy as np

import levers
from levers.worlds.named import coin_world, shared_cause_world
from levers.worlds.scm import World, gap


def run(world: World, setting: levers.Assignment, rng: np.random.Generator) -> tuple[float, dict[str, levers.Level]]:
    """One run: the outcome, and the levels that nature chose for the levers that are left alone."""
    codes, outcomes = world.sample([setting.codes], rng)
    factors = [world.space.factors[world.space.position(name)] for name in setting.free]
    took = {one.name: one.levels[codes[0, world.space.position(one.name)]] for one in factors}
    return float(outcomes[0]), took


def main() -> None:
    for name, world in (("lever and outcome", coin_world(2, scale=2.0)), ("two levers", shared_cause_world())):
        rng = np.random.default_rng(1)
        study = levers.create_study(name, world.space, tolerance=0.5, free=[world.space.names[0]], seed=1)
        study.optimize(partial(run, world, rng=rng))
        verdict = study.verdict()
        print(f"Something hidden drives {name}: {study.status().n_complete} runs")
        print(f"  set {dict(verdict.assignment)}, leave alone: {', '.join(verdict.assignment.free) or 'nothing'}")
        print(f"  {verdict.promise}; truly {gap(world, verdict.assignment):.2f} from it")
        print(*(f"  {remark.text}" for remark in verdict.provisos if "hidden cause" in remark.kind))


if __name__ == "__main__":
    main()
