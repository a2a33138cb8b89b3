"""``ykactor samples``: writes the sample queue files, dashboards, alert rules, programs and systemd units to a directory."""

from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath

import click

from ykactor.core.values.words import some
from ykactor.surfaces.cli.terminal import say

#: The directories of samples, at the top of the source tree.
DIRECTORIES = ("config", "systemd")


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def command(directory: Path) -> None:
    """Write the samples to DIR: queue files with cases, dashboards, alert rules, manifests for Kubernetes and programs for the
    Python client in config/, and systemd units in systemd/.

    DIR is created if it is missing. Existing files are not overwritten: if there is one, nothing is written.
    """
    samples = {directory / name: source for name, source in sample_files()}
    existing = [str(path) for path in samples if path.exists() or path.is_symlink()]
    if existing:
        raise click.ClickException(f"nothing written, because {len(existing)} of these files exist already: {some(existing)}")
    for path, source in samples.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(source.read_bytes())
        say(str(path))


def sample_files() -> Iterator[tuple[PurePath, Traversable]]:
    """The samples with their paths below DIR, in order."""
    root = samples_root()
    for name in DIRECTORIES:
        yield from _files_below(PurePath(name), root.joinpath(name))


def _files_below(path: PurePath, directory: Traversable) -> Iterator[tuple[PurePath, Traversable]]:
    for source in sorted(directory.iterdir(), key=lambda file: file.name):
        if source.name == "__pycache__":  # pip compiles the programs of a wheel when it installs them
            continue
        if source.is_dir():
            yield from _files_below(path / source.name, source)
        else:
            yield path / source.name, source


def samples_root() -> Traversable:
    """The root of the samples: in a wheel ``ykactor/samples`` (``force-include`` in ``pyproject.toml``), else the source tree."""
    package = resources.files("ykactor")
    packaged = package / "samples"
    return packaged if packaged.is_dir() else package / ".."
