"""Fixtures that all tests with real processes share."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _sigint_is_heard() -> Iterator[None]:
    """A shell has what it starts in the background ignore SIGINT, and our processes would inherit that and never end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def scenario(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A file with the text ``SCENARIO`` of the test's module."""
    path = tmp_path / "small.yaml"
    path.write_text(request.module.SCENARIO)
    return path


@pytest.fixture
def queue_file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A file with the text ``FIRST`` of the test's module."""
    path = tmp_path / "queues.yaml"
    path.write_text(request.module.FIRST)
    return path
