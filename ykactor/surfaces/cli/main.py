"""The command ``ykactor``: one click command per module of this package, imported only when it is called."""

import importlib
import importlib.util
from typing import Any

import click

import ykactor
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.habits import naming_options, unknown_command

#: Command name -> module of this package with the click command, which is named ``command`` or as it says behind the colon.
COMMANDS = {
    "serve": "serve",
    "demo": "demo",
    "check-config": "queue_files",
    "rule": "rule",
    "simulate": "simulate",
    "test": "test",
    "submit": "submit",
    "kubernetes": "kubernetes",
    "rm": "acts:rm",
    "queues": "views.queues",
    "apps": "views.apps",
    "app": "views.apps:app",
    "asks": "views.asks",
    "priorities": "views.asks:priorities",
    "explain": "views.explain",
    "nodes": "views.nodes",
    "node": "views.nodes:node",
    "users": "views.users",
    "partitions": "views.daemon:partitions",
    "config": "config",
    "health": "views.daemon:health",
    "stats": "views.daemon:stats",
    "top": "views.top",
    "events": "events",
    "preemptions": "views.preemptions",
    "local": "jobs.local",
    "run": "jobs.run",
    "jobs": "jobs.jobs",
    "logs": "jobs.run:logs",
    "wait": "jobs.run:wait",
    "follow": "events:follow_command",
    "story": "story",
    "convert": "convert",
    "journal": "journal",
    "record": "record",
    "replay": "replay",
    "replica": "replica",
    "take-over": "take_over",
    "what-if": "what_if",
    "audit": "history:audit",
    "usage": "usage",
    "access": "access",
    "token": "access:token",
    "samples": "samples",
    "man": "man",
}
#: The module of the verbs of operators, which has them by their names, and the command before which they are listed.
VERBS, _BEHIND_VERBS = "acts", "follow"


class LazyGroup(click.Group):
    """Runs all commands under the same exit codes.

    Imports the module of a command only when it is needed, so that a command starts without the modules of others.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = list(COMMANDS)
        place = names.index(_BEHIND_VERBS)
        return [*names[:place], *_verbs(), *names[place:]]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return _verbs().get(cmd_name)
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(_module(module), name or "command")
        return command

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


def _build() -> str:
    """The build of this installation, compiled or not; finds one module of the core without running it."""
    module = importlib.util.find_spec("ykactor.core.values.resources")
    assert module is not None
    return "pure Python" if (module.origin or "").endswith(".py") else "compiled"


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(ykactor.__version__, prog_name="ykactor", message=f"%(prog)s %(version)s ({_build()})")
def main() -> None:
    """A resource scheduler with hierarchical queues, after the rules of Apache YuniKorn."""
