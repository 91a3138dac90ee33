"""Is what a look loses priced high enough? python benchmarks/look_price.py (a minute)

The price of one factor, sup_t g(t) T(t), takes all rivals to be at one gap (docs/theory, section 6). For 48 planned
looks (1 to 30 factors of 3 to 9 levels, least effects of 0.3 to 1, tolerance 0.5) what 60 effects each lose is
simulated, and the worst three again with many more draws. Printed is the largest E g(loss) over the price, for the
envelope g in use, and for the worst increasing g of all, where the claim does not hold.
`python benchmarks/look_price.py 10` tries so many.
"""

import math
import sys

import numpy as np

from harness.looks import price_ratios, random_effects
from levers.core.certificates.look import plan_look

TOLERANCE, FAILURE_PROB = 0.5, 0.09
FIRST, AGAIN = 20_000, 1_000_000


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    rng = np.random.default_rng(0)
    largest: tuple[float, float] = (0.0, 0.0)
    any_growth = 0.0
    print("factors levels min_effect    envelope in use    any g", flush=True)
    for n_factors in (1, 4, 12, 30):
        for m in (3, 4, 6, 9):
            for min_effect in (0.3, 0.5, 1.0):
                look = plan_look(((m, True),) * n_factors, min_effect, TOLERANCE, FAILURE_PROB)
                error = math.sqrt(m / look.n_runs)
                tried = [random_effects(m, min_effect, error, rng) for _ in range(n)]
                found = [price_ratios(look, e, min_effect, TOLERANCE, rng, FIRST) for e in tried]
                order = np.argsort([ratio for ratio, _, _ in found])[-3:]
                again = [price_ratios(look, tried[i], min_effect, TOLERANCE, rng, AGAIN) for i in order]
                ratio, sem, _ = max(again)
                general = max(g for _, _, g in again)
                largest, any_growth = max(largest, (ratio, sem)), max(any_growth, general)
                print(f"{n_factors:7} {m:6} {min_effect:10} {ratio:9.3f} +- {sem:.3f} {general:8.2f}", flush=True)
    print(f"\n{48 * n:,} effects; largest {largest[0]:.3f} +- {largest[1]:.3f}, for any g {any_growth:.2f}")


if __name__ == "__main__":
    main()
