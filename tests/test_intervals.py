import numpy as np
import pytest
from scipy import stats

from steadyrank.comparison.intervals import half_width, student
from steadyrank.evaluation.report.tables import aligned

pytestmark = pytest.mark.pure


def test_half_width_by_hand():
    """1, 2, 3: standard deviation 1, standard error 1/sqrt(3), 4.303 of them by Student's law with 2."""
    assert half_width(np.array([1.0, 2.0, 3.0])) == pytest.approx(4.3027 / np.sqrt(3), rel=1e-4)
    assert np.isnan(half_width(np.array([5.0])))


def test_students_quantiles():
    for freedom in range(1, 300):
        assert student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=2e-4)


def test_table_columns_line_up():
    assert aligned(["a", "b"], [["long", "1"], ["x", "22"]]).splitlines() == [
        "a      b", "----  --", "long   1", "x     22",
    ]  # fmt: skip
