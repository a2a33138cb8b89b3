"""Files that decide who is let in belong to root or the daemon, and nobody else can change them (SE-36)."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ykactor.surfaces.files.regular import UnsafeFileError, check_ownership

OWNERS = {0, os.geteuid()}
OTHER_UID = 1234
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")

#: The file, by a link in the directory, through a link to a directory that is below two others.
STEPS = ("outer", "outer/inner", "outer/inner/real.yaml", "links", "links/data", "links/access.yaml")


def layout(tmp_path: Path) -> Path:
    """The path of an access file as a volume of Kubernetes has it, with each of ``STEPS`` on the way."""
    (tmp_path / "outer" / "inner").mkdir(mode=0o755, parents=True)
    (tmp_path / "outer").chmod(0o755)
    file = tmp_path / "outer" / "inner" / "real.yaml"
    file.touch()
    file.chmod(0o644)
    (tmp_path / "links").mkdir(mode=0o755)
    (tmp_path / "links" / "data").symlink_to(tmp_path / "outer" / ".." / "outer" / "inner")
    (tmp_path / "links" / "access.yaml").symlink_to("data/real.yaml")
    return tmp_path / "links" / "access.yaml"


def more(bits: int) -> Callable[[Path], None]:
    return lambda step: step.chmod(step.stat().st_mode & 0o7777 | bits)


def given_away(step: Path) -> None:
    os.chown(step, OTHER_UID, -1, follow_symlinks=False)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(more(0o020), id="group"),
        pytest.param(more(0o002), id="others"),
        pytest.param(given_away, id="owner", marks=needs_root),
    ],
)
def test_each_step_on_the_way_counts(tmp_path: Path, step: str, fault: Callable[[Path], None]) -> None:
    """SE-36: whoever can change the file, or one of the directories and links that lead to it, is found, and named."""
    file, wrong = layout(tmp_path), tmp_path / step
    check_ownership(file, OWNERS)
    if wrong.is_symlink() and fault is not given_away:
        wrong = wrong.resolve()
    fault(wrong)
    with pytest.raises(UnsafeFileError, match=f"^{wrong}: found the (owner {OTHER_UID}|mode 0)"):
        check_ownership(file, OWNERS)


@pytest.mark.parametrize("bits", [0o1020, 0o1002, 0o1022])
def test_a_sticky_directory_protects_what_is_there(tmp_path: Path, bits: int) -> None:
    """SE-36: as in /tmp nobody can remove or rename the files of the owners; a sticky bit of a file protects nothing."""
    file = layout(tmp_path)
    more(bits)(tmp_path / "links")
    check_ownership(file, OWNERS)
    more(bits)(file.resolve())
    with pytest.raises(UnsafeFileError):
        check_ownership(file, OWNERS)


def test_a_missing_file_could_be_made(tmp_path: Path) -> None:
    """SE-36: others could make it in a directory that they may write to."""
    check_ownership(tmp_path / "tokens.json", OWNERS)
    check_ownership(tmp_path / "no" / "tokens.json", OWNERS)
    more(0o020)(tmp_path)
    with pytest.raises(UnsafeFileError):
        check_ownership(tmp_path / "tokens.json", OWNERS)


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        check_ownership(tmp_path / "a", OWNERS)
