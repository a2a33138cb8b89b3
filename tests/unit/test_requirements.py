"""The versions that CI installs, and the lowest ones that are allowed: ``make lock`` writes both lists."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LOCKED, RUNTIME, LOWEST = (ROOT / "requirements" / f"{name}.txt" for name in ("locked", "runtime", "lowest"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DIRECT = [Requirement(text) for text in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"])]


def pins(file: Path) -> dict[str, Version]:
    """The version of each package."""
    found = re.findall(r"^([A-Za-z0-9_.-]+)(?:\[.*?\])?==([^\s;\\]+)", file.read_text(), re.MULTILINE)
    return {canonicalize_name(name): Version(version) for name, version in found}


@pytest.mark.parametrize("requirement", DIRECT, ids=lambda requirement: requirement.name)
def test_the_lowest_versions_are_those_of_the_project(requirement: Requirement) -> None:
    """The versions of ``make test-lowest`` are those that pyproject.toml promises; the lock file has a version that it allows."""
    (bound,) = [each for each in requirement.specifier if each.operator != "<"]
    name = canonicalize_name(requirement.name)
    assert bound.operator in (">=", "==")
    assert pins(LOWEST)[name] == Version(bound.version)
    assert pins(LOCKED)[name] in requirement.specifier


def test_each_package_of_the_lock_file_has_hashes() -> None:
    """So pip takes no package that is not as it was when the file was made, and none that is not in it."""
    packages = re.split(r"\n(?=\S)", re.sub(r"(?m)^\s*#.*\n", "", LOCKED.read_text()))
    assert len(packages) == len(pins(LOCKED)) > len(DIRECT)
    assert all("--hash=sha256:" in package for package in packages)


def test_what_runs_is_a_part_of_what_is_locked() -> None:
    """``make run`` installs no test tools, and each of its packages is the one of the lock file, hashes included."""
    runs, locked = pins(RUNTIME), pins(LOCKED)
    assert runs.items() <= locked.items()
    assert {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]} | {"hatchling"} <= set(runs)
    assert not {"pytest", "mypy", "ruff", "hypothesis"} & set(runs)
    hashes = set(re.findall("--hash=sha256:[0-9a-f]{64}", RUNTIME.read_text()))
    assert hashes <= set(re.findall("--hash=sha256:[0-9a-f]{64}", LOCKED.read_text()))
    first, second = [command for command in commands("$(VENV)/.runs") if "$(INSTALL)" in command]
    assert first.endswith("--requirement $(RUNTIME)")
    assert second.endswith("--no-deps --no-build-isolation --editable .")


def commands(target: str) -> Iterator[str]:
    """The commands of a target of the Makefile."""
    (text,) = re.findall(rf"^{re.escape(target)}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    yield from text.replace("\t", "").splitlines()


def test_ci_installs_what_is_locked() -> None:
    """CI calls make test, and all that make installs for it, and to build this package, comes from the lock file."""
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "exec make test"
    first, second = [command for command in commands("$(VENV)/.ready") if "$(INSTALL)" in command]
    assert first.endswith("--requirement $(LOCKED)")
    assert second.endswith("--no-deps --no-build-isolation --editable .")
    assert "hatchling" in pins(LOCKED)
    assert any("--requirement $(LOWEST)" in command for command in commands("test-lowest"))
