"""The browser, one for all tests of a process, and a page for each test, whose console has to stay empty."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bench.chromium import Page, installed, new_page, running


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if installed() is None:
        pytest.skip("no Chromium is installed")
    with running(tmp_path_factory.mktemp("browser")) as url:
        yield url


@pytest.fixture
async def page(browser: str) -> AsyncIterator[Page]:
    async with new_page(browser) as page:
        yield page
        assert page.errors == []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of the queue file of a test."""
    return tmp_path / "queues.yaml"
