"""The option of the commands that read the journal of a daemon."""

from pathlib import Path

import click

state_dir_option = click.option(
    "--state-dir",
    "directory",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The state directory of the daemon, which may run meanwhile.",
)
