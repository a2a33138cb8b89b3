"""The command ``ykactor``: one click command per module of this package, imported only when it is called."""

import importlib
import importlib.util
from typing import Any

import click

import ykactor
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.examples import described
from ykactor.surfaces.cli.habits import naming_options, unknown_command

#: By group of the help: command name -> module of this package with the click command, which is named ``command`` or as it says
#: behind the colon. The verbs of operators come first in their group.
GROUPS = {
    "Running jobs": {
        "run": "jobs.run",
        "submit-script": "jobs.script",
        "jobs": "jobs.jobs",
        "logs": "jobs.logs:command",
        "wait": "jobs.run:wait",
        "requeue": "jobs.requeue",
        "local": "jobs.local",
    },
    "Looking": {
        "queues": "views.queues",
        "apps": "views.apps",
        "app": "views.apps:app",
        "asks": "views.asks",
        "nodes": "views.nodes",
        "node": "views.nodes:node",
        "users": "views.users",
        "partitions": "views.daemon:partitions",
        "top": "views.top",
        "events": "events",
        "follow": "events:follow_command",
        "stats": "views.daemon:stats",
        "health": "views.daemon:health",
        "usage": "usage",
    },
    "Explaining": {
        "explain": "views.explain",
        "priorities": "views.asks:priorities",
        "story": "story",
        "preemptions": "views.preemptions",
        "what-if": "what_if",
        "rule": "rule",
    },
    "Operating": {
        "rm": "acts:rm",
        "take-over": "take_over",
        "audit": "history:audit",
    },
    "Configuration": {
        "config": "config",
        "check-config": "queue_files",
        "test": "test",
        "access": "access",
        "token": "access:token",
        "samples": "samples",
    },
    "Simulating": {
        "simulate": "simulate",
        "submit": "submit",
        "convert": "convert",
        "record": "record",
        "replay": "replay",
    },
    "Serving": {
        "serve": "serve",
        "replica": "replica",
        "journal": "journal",
        "kubernetes": "kubernetes",
        "demo": "demo",
    },
    "Help": {
        "docs": "docs",
        "help": "help",
        "completion": "completion",
        "man": "man",
    },
}
COMMANDS = {name: module for group in GROUPS.values() for name, module in group.items()}
#: The module of the verbs of operators, which has them by their names, and their group.
VERBS, _GROUP_OF_VERBS = "acts", "Operating"


#: Columns of a line of the help that are neither name nor text.
_BESIDE_TEXT = 6


class LazyGroup(click.Group):
    """Runs all commands under the same exit codes.

    Imports the module of a command only when it is needed, so that a command starts without the modules of others.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for _, names in _groups() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module, _, name = COMMANDS.get(cmd_name, "").partition(":")
        command: click.Command | None = getattr(_module(module), name or "command") if module else _verbs().get(cmd_name)
        return command and described(command, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        limit = formatter.width - max(map(len, self.list_commands(ctx))) - _BESIDE_TEXT
        for title, names in _groups():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl([(name, found.get_short_help_str(limit)) for name, found in commands if found is not None])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            ctx.fail(unknown_command(name, self.list_commands(ctx)))
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with naming_options():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        with exit_codes.unified(), naming_options():
            return super().invoke(ctx)


def _module(path: str) -> Any:
    return importlib.import_module(f"ykactor.surfaces.cli.{path}")


def _verbs() -> dict[str, click.Command]:
    verbs: dict[str, click.Command] = _module(VERBS).VERBS
    return verbs


def _groups() -> list[tuple[str, list[str]]]:
    """The titles of the groups with the names of their commands."""
    return [(title, [*(_verbs() if title == _GROUP_OF_VERBS else ()), *group]) for title, group in GROUPS.items()]


def _build() -> str:
    """The build of this installation, compiled or not; finds one module of the core without running it."""
    module = importlib.util.find_spec("ykactor.core.values.resources")
    assert module is not None
    return "pure Python" if (module.origin or "").endswith(".py") else "compiled"


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(ykactor.__version__, prog_name="ykactor", message=f"%(prog)s %(version)s ({_build()})")
def main() -> None:
    """A resource scheduler with hierarchical queues, after the rules of Apache YuniKorn."""
