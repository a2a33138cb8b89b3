"""The text that a release changes, and the reasons to release nothing."""

import importlib.util
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("release", ROOT / ".hatch/release.py")
assert _SPEC is not None
assert _SPEC.loader is not None
release = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(release)

SOURCE = '"""A package."""\n\n__version__ = "0.9.1"\n'


def test_the_version_of_the_package_is_replaced() -> None:
    """Only the version changes; 0.10.0 is newer than 0.9.1."""
    assert release.with_version(SOURCE, "0.10.0") == SOURCE.replace("0.9.1", "0.10.0")


@pytest.mark.parametrize("version", ["0.9.1", "0.9.0", "0.8.9", "1.0", "1.0.0rc1", "v1.0.0"])
def test_a_version_has_three_numbers_and_is_newer(version: str) -> None:
    """Another version is refused, and the error names it."""
    with pytest.raises(release.CannotReleaseError, match=version):
        release.with_version(SOURCE, version)


def test_the_changes_get_the_heading_of_the_version() -> None:
    """The heading of what is not released stays above it, with nothing below."""
    changelog = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- It.\n\n## [0.9.1] - 2026-01-01\n"
    found = release.with_heading(changelog, "1.0.0", date(2026, 2, 3))
    heading = "## [Unreleased]\n\n## [1.0.0] - 2026-02-03\n"
    assert found == changelog.replace("## [Unreleased]\n", heading)
    with pytest.raises(release.CannotReleaseError, match="no changes"):
        release.with_heading(found, "1.0.1", date(2026, 2, 4))


def test_the_real_files_can_be_released() -> None:
    """The version and the changelog of this tree have the form that a release expects; locked versions are constraints."""
    release.with_version((ROOT / "ykactor/__init__.py").read_text(), "999.0.0")
    lines = list(release.locked((ROOT / "requirements/runtime.txt").read_text()))
    assert any(line.startswith("trio==") for line in lines)
    assert all("==" in line and "hash" not in line and "\\" not in line for line in lines)
