import math

import numpy as np
import pytest

from levers.core.validation import LARGEST_SCALE, check_positive, check_scale
from levers.errors import InvalidSettingError


@pytest.mark.parametrize("name", ["noise_sd", "tolerance", "min_effect"])
@pytest.mark.parametrize("value", [5e-324, 1e-300, 1e-170, 9.99e-101, 1.01e100, 1e155, 1e300])
def test_a_scale_whose_square_vanishes_or_overflows_is_refused_in_one_line(name: str, value: float) -> None:
    assert check_positive(name, value) == value
    with pytest.raises(InvalidSettingError, match=rf"^{name} must be between .*; choose another unit$") as refused:
        check_scale(name, value)
    assert refused.value.field == name
    assert "\n" not in str(refused.value)
    assert f"not {value:g}" in str(refused.value)


@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, "1", None, True])
def test_a_scale_is_a_finite_number_above_zero(value: object) -> None:
    with pytest.raises(InvalidSettingError, match="must be a finite number above 0"):
        check_scale("noise_sd", value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [1 / LARGEST_SCALE, 1e-50, 0.5, 3, np.float64(2.5), LARGEST_SCALE])
def test_what_is_computed_from_an_accepted_scale_is_neither_zero_nor_infinite(value: float) -> None:
    scale = check_scale("noise_sd", value)
    assert type(scale) is float
    for other in (1 / LARGEST_SCALE, 1.0, LARGEST_SCALE):
        assert 0 < scale**2 < math.inf
        assert 0 < scale**2 * 1e15 < math.inf  # a sum of squares of the longest study
        assert 0 < scale / other < math.inf
