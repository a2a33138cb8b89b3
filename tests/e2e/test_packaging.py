"""Contents of an installation: the licence, the samples, and ``ykactor samples``, which writes them."""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import Struct

import ykactor
from ykactor.core.planner import planner
from ykactor.surfaces.cli import samples, serve
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.cli.samples import DIRECTORIES, command
from ykactor.surfaces.http.page import DIRECTORY

ROOT = Path(__file__).parents[2]
BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]

COMPILED = [path.removesuffix(".py").replace("/", ".") for path in BUILD["targets"]["wheel"]["hooks"]["custom"]["modules"]]


def write_samples(directory: Path) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    result = CliRunner().invoke(command, [str(directory)])
    return result.exit_code, result.stdout, result.stderr


def files_below(directory: Path) -> dict[str, bytes]:
    """The files of a directory, but for the bytecode that Python leaves there."""
    files = (path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def classes_of(name: str) -> list[type]:
    """The classes that a module defines."""
    module = importlib.import_module(name)
    return [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == name]


SAMPLES = {f"{name}/{path}": content for name in DIRECTORIES for path, content in files_below(ROOT / name).items()}


# ---- the command


def test_samples_are_written(tmp_path: Path) -> None:
    """All files of config/ and systemd/, byte for byte, in a directory that is created; each path is printed."""
    target = tmp_path / "new" / "samples"
    code, out, err = write_samples(target)
    assert (code, err) == (0, "")
    assert files_below(target) == SAMPLES
    assert out.splitlines() == [str(target / name) for name in sorted(SAMPLES)]


def test_existing_files_are_kept(tmp_path: Path) -> None:
    """Nothing is written if a file exists; the error names the first of them and their number; the exit code is 1."""
    kept = [tmp_path / "config" / "queues.yaml", tmp_path / "systemd" / "ykactor.service"]
    for path in kept:
        path.parent.mkdir()
        path.write_text("mine")
    code, out, err = write_samples(tmp_path)
    assert (code, out) == (1, "")
    assert err == f"Error: nothing written, because 2 of these files exist already: {kept[0]}, {kept[1]}\n"
    assert files_below(tmp_path) == {"config/queues.yaml": b"mine", "systemd/ykactor.service": b"mine"}
    assert write_samples(tmp_path / "again")[0] == 0
    code, out, err = write_samples(tmp_path / "again")
    first = ", ".join(str(tmp_path / "again" / name) for name in sorted(SAMPLES)[:3])
    found = f"{len(SAMPLES)} of these files exist already: {first} and {len(SAMPLES) - 3} more"
    assert (code, out, err) == (1, "", f"Error: nothing written, because {found}\n")


def test_other_files_do_not_matter(tmp_path: Path) -> None:
    """The directory may exist and have other files."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "other.yaml").write_text("mine")
    assert write_samples(tmp_path)[0] == 0
    assert files_below(tmp_path) == {**SAMPLES, "config/other.yaml": b"mine"}


def test_bytecode_is_no_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the programs of an installed package there is some."""
    for name in ("config/examples/a.py", "config/examples/__pycache__/a.cpython-311.pyc", "systemd/b.service"):
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    monkeypatch.setattr(samples, "samples_root", lambda: tmp_path / "root")
    assert write_samples(tmp_path / "to")[0] == 0
    written = {path.relative_to(tmp_path / "to").as_posix() for path in (tmp_path / "to").rglob("*") if path.is_file()}
    assert written == {"config/examples/a.py", "systemd/b.service"}


# ---- the distribution


def test_the_image_runs_the_daemon() -> None:
    """The arguments of the image are those of a command, and the requirements that it installs exist."""
    lines = (ROOT / "Containerfile").read_text().splitlines()
    (entry,) = [line.removeprefix("ENTRYPOINT ") for line in lines if line.startswith("ENTRYPOINT ")]
    (arguments,) = [line.removeprefix("CMD ") for line in lines if line.startswith("CMD ")]
    assert json.loads(entry) == ["ykactor"]
    name, *options = json.loads(arguments)
    assert name == "serve"
    serve.command.make_context(name, options)
    (requirements,) = [word.removeprefix("/source/") for line in lines for word in line.split() if word.startswith("/source/")]
    assert (ROOT / requirements).exists()


def test_every_directory_of_samples_is_in_the_wheel() -> None:
    """The build maps each to ``ykactor/samples``, where the command looks for it."""
    assert BUILD["targets"]["wheel"]["force-include"] == {name: f"ykactor/samples/{name}" for name in DIRECTORIES}


def test_the_changelog_has_a_heading_for_this_version() -> None:
    """The newest released version is that of the package, with a date, below the changes that are not yet released."""
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[0] == "## [Unreleased]"
    assert headings[1].startswith(f"## [{ykactor.__version__}] - 20")


def test_the_version_says_whether_the_core_is_compiled() -> None:
    """``ykactor --version`` names the version, and what the planner was loaded from."""
    kind = "pure Python" if planner.__file__.endswith(".py") else "compiled"
    assert CliRunner().invoke(main, ["--version"]).output == f"ykactor {ykactor.__version__} ({kind})\n"


@pytest.mark.parametrize("module", COMPILED)
def test_no_module_that_is_compiled_defines_a_struct(module: str) -> None:
    """mypyc ignores the arguments of such a class, so that it would no longer be frozen, for example."""
    assert not [each for each in classes_of(module) if issubclass(each, Struct)]


@pytest.mark.parametrize("module", COMPILED)
def test_what_is_compiled_inherits_only_from_what_is_compiled(module: str) -> None:
    """A compiled class cannot be derived from one of the package that Python has made: its module cannot be imported."""
    bases = {base.__module__ for each in classes_of(module) for base in each.__mro__ if base.__module__.startswith("ykactor.")}
    assert bases <= set(COMPILED)


@pytest.mark.skipif(importlib.util.find_spec("hatchling") is None, reason="needs hatchling")
def test_a_source_distribution_has_what_builds_it(tmp_path: Path) -> None:
    """All files that the build names are in it, so that pip can install it."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path], cwd=ROOT, check=True)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    hook = BUILD["targets"]["wheel"]["hooks"]["custom"]["path"]
    assert {hook, ".hatch/release.py", "pyproject.toml", "README.md", "ykactor/__main__.py", *SAMPLES} <= names


@pytest.mark.skipif(importlib.util.find_spec("hatchling") is None, reason="needs hatchling")
def test_a_wheel_works_without_the_source_tree(tmp_path: Path) -> None:
    """A wheel has the licences in its metadata, the page and the handbook; its package alone writes the same samples."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    (information,) = (tmp_path / "installed").glob("*.dist-info")
    metadata = message_from_bytes((information / "METADATA").read_bytes())
    assert metadata["License-Expression"] == "Apache-2.0"
    for licence in ("LICENSE", "ykactor/surfaces/page/uplot/LICENSE"):
        assert (information / "licenses" / licence).read_bytes() == (ROOT / licence).read_bytes()
    assert files_below(tmp_path / "installed" / "ykactor" / "surfaces" / "page") == files_below(DIRECTORY)
    handbook = files_below(ROOT / "ykactor" / "handbook")
    assert files_below(tmp_path / "installed" / "ykactor" / "handbook") == handbook
    assert "README.md" in handbook
    subprocess.run(
        [sys.executable, "-m", "ykactor", "samples", tmp_path / "samples"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        check=True,
    )
    assert files_below(tmp_path / "samples") == SAMPLES
