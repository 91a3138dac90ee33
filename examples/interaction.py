"""Two levers that work only together: the alarm, and how a study goes on. Run: python examples/interaction.py"""

from collections.abc import Mapping

import numpy as np

import levers

FACTORS: dict[str, list[levers.Level]] = {
    "heat": ["low", "mid", "high"],
    "speed": [1, 2, 3],
    "belt": ["A", "B"],
    "shift": ["day", "night"],
}
noise = np.random.default_rng(0)


def expected(run: Mapping[str, levers.Level]) -> float:
    """High heat and speed 3 are best together; either of them alone is worse than nothing."""
    together = 1.5 * (run["heat"] == "high" and run["speed"] == 3)
    return together + 0.6 * (run["heat"] == "low") + 0.5 * (run["speed"] == 1) + 0.4 * (run["belt"] == "B")


def measure(run: Mapping[str, levers.Level]) -> float:
    """One run of the oven."""
    return expected(run) + 0.7 * float(noise.normal())


def main() -> None:
    """First as if effects added up, then with the two levers as one and the runs kept."""
    oven = levers.create_study("oven", FACTORS, tolerance=0.3, noise_sd=0.7, seed=1)
    first = oven.optimize(measure)
    assert first is not None  # no timeout was given
    print(f"{first.n_runs} runs: {dict(first.assignment)} yields {expected(dict(first.assignment)):.1f}")
    print(*(doubt.text for doubt in first.doubts), sep="\n")
    again = levers.merge_study("oven", "oven 2", ["heat", "speed"], oven.storage, seed=2)
    second = again.optimize(measure)
    assert second is not None
    print(f"{second.n_runs} more: {dict(second.assignment)} yields {expected(dict(second.assignment)):.1f}")


if __name__ == "__main__":
    main()
