"""Words of Slurm and kubectl: what ykactor calls the same, for the errors about unknown commands and options."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

#: A command of Slurm, kubectl or a shell -> the commands here.
COMMANDS = {
    "sinfo": "ykactor nodes, and ykactor queues",
    "squeue": "ykactor jobs, and ykactor asks with the reasons",
    "sbatch": "ykactor submit-script, and ykactor convert sbatch for lines #SBATCH",
    "srun": "ykactor run",
    "salloc": "ykactor run",
    "scancel": "ykactor cancel",
    "scontrol": "ykactor hold, ykactor release, ykactor priority, ykactor move, ykactor drain, or ykactor explain",
    "sacct": "ykactor jobs --attempts --since 1d, and ykactor usage",
    "sreport": "ykactor usage",
    "sprio": "ykactor priorities",
    "sshare": "ykactor queues -o wide, and ykactor users",
    "sdiag": "ykactor stats",
    "sstat": "ykactor jobs JOB",
    "sattach": "ykactor logs -f",
    "sacctmgr": "ykactor config, which shows and changes the queue file",
    "get": "ykactor queues, ykactor apps, ykactor asks, or ykactor nodes",
    "describe": "ykactor explain, ykactor app, or ykactor node",
    "delete": "ykactor cancel",
    "kill": "ykactor cancel",
    "stop": "ykactor cancel",
    "apply": "ykactor config apply",
    "cordon": "ykactor drain",
    "uncordon": "ykactor undrain",
    "exec": "ykactor run",
    "ps": "ykactor jobs",
    "status": "ykactor health",
    "task": "ykactor explain",
    "job": "ykactor jobs",
    "start": "ykactor serve",
}
#: An option of Slurm, kubectl or other daemons -> those here, of which a command may have some.
OPTIONS = {
    "-p": ("--queue",),
    "-q": ("--queue",),
    "--partition": ("--queue",),
    "--qos": ("--priority", "--queue"),
    "--nice": ("--priority",),
    "-c": ("--vcore", "--config"),
    "--cpu": ("--vcore",),
    "--cpus": ("--vcore",),
    "--cpus-per-task": ("--vcore",),
    "--mem": ("--memory",),
    "--mem-per-cpu": ("--memory",),
    "-G": ("--gpu",),
    "--gpus": ("--gpu",),
    "--gres": ("--gpu", "--resource"),
    "-n": ("--array", "--gang", "--queue"),
    "-N": ("--array", "--gang"),
    "--ntasks": ("--array", "--gang"),
    "--nodes": ("--array", "--gang"),
    "-a": ("--array",),
    "-d": ("--after", "--detach"),
    "--dependency": ("--after",),
    "-J": ("--name",),
    "--job-name": ("--name",),
    "-t": ("--time", "--state"),
    "--timeout": ("--time",),
    "--requeue": ("--retries",),
    "-u": ("--user",),
    "-A": ("--user",),
    "--account": ("--user",),
    "--format": ("-o",),
    "--json": ("-o",),
    "--namespace": ("--queue",),
    "--port": ("--ws",),
    "--listen": ("--ws",),
    "--server": ("--url",),
    "--host": ("--url", "--ws"),
    "--data-dir": ("--state-dir",),
    "--file": ("--config",),
    "-f": ("--config",),
}
#: Letters of a word that are compared with those that are known.
_LETTERS_MAX = 64


def unknown_command(name: str, known: Sequence[str]) -> str:
    """The error about a command that is not there, with what was meant."""
    near = difflib.get_close_matches(name[:_LETTERS_MAX], known)
    meant = COMMANDS.get(name) or " or ".join(f"ykactor {each}" for each in near)
    return f"No such command {name!r}, " + (f"expected {meant}" if meant else "expected one that ykactor --help lists")


@contextmanager
def naming_options() -> Iterator[None]:
    """Names in the error about an unknown option what was meant."""
    try:
        yield
    except click.NoSuchOption as error:
        ctx = error.ctx
        if ctx is None:
            raise
        raise click.UsageError(f"No such option {error.option_name!r}, {_meant(error, ctx)}", ctx) from None


def _meant(error: click.NoSuchOption, ctx: click.Context) -> str:
    if ctx.parent is None:
        return "expected options behind the name of a command, as in ykactor queues --url ws://127.0.0.1:9081"
    known = {word for parameter in ctx.command.params for word in parameter.opts}
    found = [word for word in OPTIONS.get(error.option_name, ()) if word in known] or error.possibilities
    return f"expected {' or '.join(found)}" if found else f"expected one that {ctx.command_path} --help lists"
