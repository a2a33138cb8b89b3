"""What all tests with real processes share."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _sigint_is_heard() -> Iterator[None]:
    """A shell has what it starts in the background ignore SIGINT, and our processes would inherit that and never end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
