"""An Optuna script with the sampler of levers, against TPE with as many runs: python benchmarks/optuna_sampler.py [20]

Both run the same objective through `study.optimize`. The sampler of levers stops by itself, at a certified answer; TPE
is then given as many trials. Printed are the runs, and the true regret of what each recommends: how far its setting
is from the best one, without noise. TPE recommends its best trial, as `study.best_params` does. Random sampling on as
many runs stands for no method at all.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before numpy is loaded

import sys
import warnings

import numpy as np
import optuna

from levers.integrations.optuna import LeversSampler, stop_at_verdict
from levers.worlds.random import random_world
from levers.worlds.scm import World, gap

TOLERANCE, FAILURE_PROB, NOISE_SD = 0.5, 0.1, 1.0
SPACES = ((5, 2, 5.0), (10, 3, 5.0), (10, 10, 1.0))
"""Numbers of factors and of parents, and the largest effect."""
MOST = 5_000


def objective(world: World, seed: int) -> "optuna.study.study.ObjectiveFuncType":
    """What a user would write: parameters by name, and one noisy outcome."""
    rng = np.random.default_rng(seed)
    names = world.space.names

    def run(trial: optuna.Trial) -> float:
        codes = [
            trial.suggest_categorical(name, list(range(m))) for name, m in zip(names, world.space.n_levels, strict=True)
        ]
        return float(world.sample(np.array([codes], dtype=np.int16), rng).outcomes[0])

    return run


def regret(world: World, params: dict[str, int]) -> float:
    return gap(world, [params[name] for name in world.space.names])


def main() -> None:
    n_worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    promised = f"tolerance {TOLERANCE} with probability {1 - FAILURE_PROB:.0%}"
    print(f"{n_worlds} random worlds each, {promised}, noise sd {NOISE_SD}; regret of:")
    print("factors  parents  effects     runs   levers      TPE   random  over tolerance")
    for n_factors, n_parents, bound in SPACES:
        rows = []
        for index in range(n_worlds):
            rng = np.random.default_rng((7, n_factors, index))
            world = random_world(n_factors, n_parents, rng, levels=(3, 5), outcome_bound=bound)
            sampler = LeversSampler(tolerance=TOLERANCE, failure_prob=FAILURE_PROB, noise_sd=NOISE_SD, seed=index)
            study = optuna.create_study(direction="maximize", sampler=sampler)
            study.optimize(objective(world, index), n_trials=MOST, callbacks=[stop_at_verdict])
            found = regret(world, {name: int(level) for name, level in sampler.verdict().assignment.items()})
            runs, others = len(study.trials), []
            for other in (optuna.samplers.TPESampler(seed=index), optuna.samplers.RandomSampler(seed=index)):
                rival = optuna.create_study(direction="maximize", sampler=other)
                rival.optimize(objective(world, index + 1000), n_trials=runs)
                others.append(regret(world, rival.best_params))
            rows.append((runs, found, *others))
        means = np.mean(rows, axis=0)
        failed = sum(row[1] > TOLERANCE for row in rows)
        regrets = " ".join(f"{mean:>8.3f}" for mean in means[1:])
        print(
            f"{n_factors:>7} {n_parents:>8} {bound:>8g} {means[0]:>8.0f} {regrets}  {failed} of {n_worlds}", flush=True
        )


if __name__ == "__main__":
    main()
