"""Here so that pytest puts this folder on the import path: every kind of test may say ``from world import ...``."""

import gc
import logging
import os
from collections.abc import Iterator

import pytest
from daemon import LIMIT_S
from hypothesis import settings
from seeds import IS_NIGHT

from ykactor.client import connection
from ykactor.surfaces.net.descriptors import raise_limit

settings.load_profile("night" if IS_NIGHT else "day")
# The files that tests write are such as a daemon accepts (SE-36), whatever those of this user are.
os.umask(0o022)
# Tables are as wide as what they have, wherever tests run: pytest-xdist says that terminals have 80 columns.
os.environ.pop("COLUMNS", None)
# A client waits for a daemon of a test as long as a test may take: on a busy machine it begins late.
connection.CONNECT_S = LIMIT_S
# Daemons in this process share out its descriptors, of which one of their own takes as many.
raise_limit()


def pytest_collection_finish() -> None:
    """Exclude from garbage collection what stays to the end: modules and thousands of tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def logging_restored() -> Iterator[None]:
    """Restore the handlers and levels of pytest after a test that configures logging, which is for a whole process."""
    ours = logging.getLogger("ykactor")
    handlers, level, ours_level = logging.root.handlers[:], logging.root.level, ours.level
    logging.root.handlers[:] = []
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    ours.setLevel(ours_level)


@pytest.fixture(autouse=True, scope="module")
def _forget(request: pytest.FixtureRequest) -> Iterator[None]:
    """Free what the tests of a module have shared: the collector looks at all of it again and again."""
    yield
    for value in list(vars(request.module).values()):
        if hasattr(value, "cache_clear"):
            value.cache_clear()
