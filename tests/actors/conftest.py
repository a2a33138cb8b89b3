"""Fixtures that the tests of actors share."""

import pytest
import trio


@pytest.fixture(params=range(8))
def seed(request):
    """Fixes the order in which trio runs tasks that are ready together; a test that asks for it runs under eight orders."""
    trio._core._run._r.seed(request.param)
    return request.param
