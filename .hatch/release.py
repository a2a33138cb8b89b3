"""``python .hatch/release.py VERSION``: make the files of a release, and check each of them in an environment of its own.

Writes the version and the heading of the changelog, builds the source distribution, and from it the pure and the compiled wheel,
so that what is published is complete. Commits and uploads nothing: it prints the commands that do.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
VERSION_FILE, CHANGELOG, RUNTIME = ROOT / "ykactor/__init__.py", ROOT / "CHANGELOG.md", ROOT / "requirements/runtime.txt"
UNRELEASED = "## [Unreleased]\n"


class CannotReleaseError(Exception):
    """A reason to release nothing."""


def main(version: str) -> None:
    """Write, build and check; a failure leaves ``dist`` without checksums."""
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, check=True).stdout:
        raise CannotReleaseError("the work tree has changes: commit them first")
    source, changelog = VERSION_FILE.read_text(), CHANGELOG.read_text()
    new_source, new_changelog = with_version(source, version), with_heading(changelog, version, date.today())
    VERSION_FILE.write_text(new_source)
    CHANGELOG.write_text(new_changelog)
    for old in DIST.glob("*"):
        old.unlink()
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", DIST)
    (sdist,) = DIST.glob("*.tar.gz")
    for compiled in (False, True):
        with tempfile.TemporaryDirectory() as directory:
            wheel = built(sdist, compiled)
            python = installed(wheel, Path(directory))
            check(python, f"ykactor {version} ({'compiled' if compiled else 'pure Python'})\n", Path(directory))
            if not compiled:
                write_sbom(python, DIST / f"ykactor-{version}.cdx.json")
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(DIST.iterdir()))
    (DIST / "SHA256SUMS").write_text(sums)
    print(f"{sums}\nThe files are in {DIST}. Next:")
    print(f"  git commit --all --message 'Release {version}' && git tag --annotate v{version} --message 'ykactor {version}'")


def with_version(source: str, version: str) -> str:
    """The text of ``ykactor/__init__.py`` with another version, which has to be newer."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise CannotReleaseError(f"version {version!r}: expected three numbers, such as 1.2.3")
    found = re.search(r'^__version__ = "(.*)"$', source, re.MULTILINE)
    if found is None:
        raise CannotReleaseError(f"{VERSION_FILE} has no line with __version__")
    if _numbers(version) <= _numbers(found[1]):
        raise CannotReleaseError(f"version {version} is not newer than {found[1]}")
    return source[: found.start(1)] + version + source[found.end(1) :]


def with_heading(changelog: str, version: str, today: date) -> str:
    """The changelog, in which the changes that were not released are those of ``version``."""
    before, found, after = changelog.partition(UNRELEASED)
    if not found or after.lstrip().startswith("## "):
        raise CannotReleaseError(f"{CHANGELOG} has no changes below {UNRELEASED.strip()}")
    return f"{before}{UNRELEASED}\n## [{version}] - {today}\n{after}"


def built(sdist: Path, compiled: bool) -> Path:
    """The wheel that is made from the source distribution."""
    before = set(DIST.glob("*.whl"))
    environ = {**os.environ, "YKACTOR_COMPILE": "1" if compiled else "0"}
    run(sys.executable, "-m", "pip", "wheel", *_QUIET, "--no-deps", "--wheel-dir", DIST, sdist, env=environ)
    (wheel,) = set(DIST.glob("*.whl")) - before
    return wheel


def installed(wheel: Path, directory: Path) -> Path:
    """The interpreter of a new environment that has the wheel, and the versions of its libraries that are tested."""
    run(sys.executable, "-m", "venv", directory / "env")
    python = directory / "env/bin/python"
    constraints = directory / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in locked(RUNTIME.read_text())))
    run(python, "-m", "pip", "install", *_QUIET, "--constraint", constraints, wheel)
    return python


def locked(requirements: str) -> Iterator[str]:
    """The lines of a list of locked versions, without hashes, which constraints may not have."""
    for line in requirements.splitlines():
        if line[:1].isalnum():
            yield line.removesuffix(" \\")


def check(python: Path, version_line: str, directory: Path) -> None:
    """Ask the installed command for its version, its samples, and whether the scheduler decides the cases in them as they say."""
    command = python.with_name("ykactor")
    found = subprocess.run([command, "--version"], cwd=directory, capture_output=True, text=True, check=True).stdout
    if found != version_line:
        raise CannotReleaseError(f"ykactor --version printed {found!r}, expected {version_line!r}")
    run(command, "samples", directory / "samples", cwd=directory, stdout=subprocess.DEVNULL)
    run(command, "check-config", directory / "samples/config/queues.yaml", cwd=directory)
    run(command, "test", directory / "samples/config/cases.yaml", cwd=directory)


def write_sbom(python: Path, path: Path) -> None:
    """Write what the environment has as CycloneDX."""
    uv = Path(sys.executable).with_name("uv")
    cyclonedx = (uv, "tool", "run", "--quiet", "--from", "cyclonedx-bom>=7.2", "cyclonedx-py")
    run(*cyclonedx, "environment", python, "--output-reproducible", "--output-file", path)


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None, stdout: int | None = None) -> None:
    """Run a command, print it, and fail if it does."""
    print("+", *command, flush=True)
    subprocess.run(command, cwd=cwd, env=env, stdout=stdout, check=True)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


_QUIET = ("--quiet", "--disable-pip-version-check")

if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except CannotReleaseError as error:
        sys.exit(f"Nothing is released: {error}.")
