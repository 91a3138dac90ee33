"""Are equal gaps the worst case? F(t) = sum_i P_i(t) / h(t_i) on many gaps: python benchmarks/slippage.py (a minute)

Equal gaps are the worst case for m levels if F is never above 1 (docs/theory/slippage.md). F is 1 at equal gaps. How
far it stays below 1 is printed: the least over all gaps, over those that spread by half a standard error or more, and
where climbs from random gaps end. Below zero by more than rounding would be a counterexample.
`python benchmarks/slippage.py 2000` tries so many gaps of each number of levels.
"""

import sys

import numpy as np
from scipy.optimize import minimize

from harness.slippage import random_gaps, slippage_ratio

LEVELS = (3, 4, 5, 6, 7, 8)
N_CLIMBS = 20
LARGEST = 14.0  # gaps beyond this are as good as infinite


def climb(start: np.ndarray) -> float:
    """The largest F that is reached from these gaps, uphill."""

    def below(gaps: np.ndarray) -> float:
        return -float(slippage_ratio(np.minimum(np.abs(gaps), LARGEST)[None, :])[0])

    return -float(minimize(below, start, method="Nelder-Mead", options={"maxfev": 1500}).fun)


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    rng = np.random.default_rng(0)
    print("levels  gaps tried  least 1 - F  where they spread  after climbs", flush=True)
    for m in LEVELS:
        gaps = random_gaps(m - 1, n, rng)
        short = 1 - np.concatenate([slippage_ratio(part) for part in np.array_split(gaps, max(n // 1000, 1))])
        apart = short[np.ptp(gaps, axis=1) >= 0.5].min()
        ends = 1 - max(climb(gaps[i]) for i in range(N_CLIMBS))
        print(f"{m:6} {n:11,} {short.min():12.1e} {apart:18.1e} {ends:13.1e}", flush=True)


if __name__ == "__main__":
    main()
