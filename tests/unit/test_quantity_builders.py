"""``client/quantities.py``: the builders give text that means the same on the wire and in the queue file."""

from fractions import Fraction

import pytest

from ykactor.client import cores, gib
from ykactor.core.values.quantities import parse_quantity


@pytest.mark.parametrize(("count", "thousandths"), [(4, 4000), (0.5, 500), (0, 0), (0.001, 1), (Fraction(1, 4), 250)])
def test_cores(count, thousandths):
    """Thousandths of a core."""
    assert parse_quantity("vcore", cores(count)) == thousandths


@pytest.mark.parametrize(("count", "mebibytes"), [(8, 8192), (0.5, 512), (0, 0), (1.25, 1280)])
def test_gib(count, mebibytes):
    """Binary units."""
    assert parse_quantity("memory", gib(count)) == mebibytes * 2**20


@pytest.mark.parametrize("build", [cores, gib])
@pytest.mark.parametrize("count", [-1, 0.00001, float("nan"), float("inf")])
def test_what_is_not_exact_is_refused(build, count):
    """Nothing is rounded."""
    with pytest.raises(ValueError, match="expected a number that is not negative"):
        build(count)
