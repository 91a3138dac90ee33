"""Run a study by hand: ask for eight runs at a time, make them anywhere, tell the outcomes, stop when told to."""

import numpy as np

import levers
from levers.algorithms.cfs.solver import Cfs

space = levers.Space.of({"dose": [0, 10, 20, 30], "feed": ["daily", "weekly"], "light": ["dim", "full", "pulsed"]})
cfs = Cfs(levers.Problem(space, tolerance=1.0, failure_prob=0.1, noise_sd=None), batch_size=8)

rng = np.random.default_rng(3)  # the solver's own randomness; the lab below has its own
lab = np.random.default_rng(4)
state = cfs.start()
while isinstance(step := cfs.ask(state, rng), levers.Batch):
    outcomes = []
    for row in step.codes:
        run = space.assignment(row)
        outcomes.append(0.1 * float(run["dose"]) + 2.0 * (run["light"] == "pulsed") + 0.5 * lab.normal())
    state = cfs.tell(state, step, outcomes)
    state = levers.from_json(levers.to_json(state), type(state))  # a study survives being put away between batches

print(f"after {step.n_runs} runs: {dict(step.assignment)}")
print(f"within {step.tolerance:.2f} of the best with probability {1 - step.failure_prob:.0%}; noise {step.noise}")
