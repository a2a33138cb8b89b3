"""The same input gives the same turns in every process: whatever the hash seed, the build and the Python (DU-15, DU-19).

A daemon and its replica may differ in all of these. ``make test-compiled`` compares its build with that of the checkout, and
``make test-nightly`` that of the checkout with the lowest versions (``make test-lowest``) and with other interpreters.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from seeds import IS_NIGHT, scaled

from ykactor.core.values import resources

TESTS = Path(__file__).parents[1]
SEEDS = range(scaled(14))
IS_COMPILED = not (resources.__file__ or "").endswith(".py")
#: Environments in the checkout whose code is that of the checkout, and other interpreters that may have the libraries.
ENVIRONMENTS = [".venv", ".venv-lowest"]
PYTHONS = ["python3.12", "python3.13", "python3.14"]


def digests_of(python: str, hash_seed: int) -> dict[str, Any]:
    """The digests of a process."""
    path = os.pathsep.join(map(str, (TESTS, TESTS / "property")))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PYTHONHASHSEED": str(hash_seed)}
    command = [python, str(TESTS / "digests.py"), *map(str, SEEDS)]
    answer = subprocess.run(command, env=environment, cwd=TESTS / "unit", stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = msgspec.json.decode(answer.stdout)
    assert sum(turns for turns, _ in found["digests"].values()) > 300 * len(SEEDS)
    return found


@cache
def expected() -> dict[str, Any]:
    """The digests of the interpreter that runs this."""
    found = digests_of(sys.executable, 1)
    assert found["compiled"] == IS_COMPILED
    return found


def test_with_another_hash_seed() -> None:
    """The order of sets is another one in each process, and must not count."""
    assert digests_of(sys.executable, 2) == expected()


@pytest.mark.skipif(not IS_NIGHT and not IS_COMPILED, reason="part of make test-nightly and make test-compiled")
@pytest.mark.parametrize("name", ENVIRONMENTS + PYTHONS)
def test_with_another_build(name: str) -> None:
    """Compiled or not, with the lowest versions of the libraries, and with another Python."""
    python = shutil.which(name) if name in PYTHONS else str(TESTS.parent / name / "bin/python")
    if python is None or not Path(python).exists():
        pytest.skip(f"there is no {name}")
    if subprocess.run([python, "-c", "import hypothesis, msgspec, trio"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip(f"{name} does not have the libraries")
    found = digests_of(python, 3)
    assert not found["compiled"]
    assert found["digests"] == expected()["digests"]
