"""The options of ``ykactor local --system``, and ``ykactor local install``, which says how to install it."""

from __future__ import annotations

import grp
import hashlib
import os
import shlex
import sys
from importlib import resources
from pathlib import Path

import click
from msgspec import Struct

from ykactor.core.values.names import is_group_name
from ykactor.local.access import System
from ykactor.local.isolation import Isolation
from ykactor.local.shared_groups import shared_cgroups
from ykactor.local.system import NotSafe, check_start
from ykactor.surfaces.cli.options import WholeNumber, grouped
from ykactor.surfaces.cli.samples import samples_root
from ykactor.surfaces.cli.terminal import say

_UID_MAX = 2**32 - 2
#: In the order in which they are started.
_UNITS = ("ykactor.socket", "ykactor-http.socket", "ykactor.service", "ykactor-jobs.service", "ykactor-local-system.service")


class SystemOptions(Struct, frozen=True):
    """The options of a local resource manager for all users; without ``system`` they say nothing."""

    system: bool
    group: str
    operators: str
    min_uid: int
    tasks_max: int

    def chosen(self, url: str) -> System | None:
        """The settings for all users; None: only the own user is served.

        Raises:  ClickException: root should not do this here.
        """
        if not self.system:
            if self.group or self.operators:
                raise click.UsageError("found --group or --operators without --system, expected it with")
            return None
        try:
            check_start(url)
        except NotSafe as reason:
            raise click.ClickException(str(reason)) from None
        group = _group(self.group, "--group") if self.group else -1
        operators = _group(self.operators, "--operators") if self.operators else -1
        return System(group, self.operators, self.min_uid, operators)

    def isolation(self, directory: Path) -> Isolation:
        """The control groups of all users.

        Raises:  ClickException: there are none.
        """
        name = f"ykactor-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]}"
        groups = shared_cgroups(name, self.tasks_max)
        if groups is None:
            expected = "a tree of version 2 (Linux 5.14) in which this process may make some"
            raise click.ClickException(f"found no control groups that know whose a process is, expected {expected}")
        return groups


def _group(name: str, option: str) -> int:
    """The number of a group."""
    try:
        found = grp.getgrnam(name)
    except KeyError:
        found = None
    if found is None or not is_group_name(name):
        raise click.UsageError(f"found {option} {name}, expected a group that getent group knows")
    return found.gr_gid


system_options = grouped(
    "shared",
    SystemOptions,
    click.option("--system", is_flag=True, help="Serve all users of the machine: root starts each job as its user."),
    click.option("--group", default="", metavar="GROUP", help="With --system: only members of GROUP may connect."),
    click.option("--operators", default="", metavar="GROUP", help="With --system: members of GROUP may see and change all jobs."),
    click.option(
        "--min-uid",
        type=WholeNumber(1, _UID_MAX),
        default=1000,
        show_default=True,
        metavar="N",
        help="With --system: the lowest number of a user who may connect, besides root.",
    ),
    click.option(
        "--tasks-max",
        type=WholeNumber(1, 2**22),
        default=4096,
        show_default=True,
        metavar="N",
        help="With --system: how many processes and threads a task may have.",
    ),
)


@click.command()
def install() -> None:
    """Print the commands with which root installs ykactor for a group of people who share this machine.

    They install the daemon and ykactor local --system as services of systemd, with samples of the queue file and of the access
    file in /etc/ykactor if there are none.
    """
    with resources.as_file(samples_root()) as found:
        root = shlex.quote(str(found.resolve()))
    program = Path(sys.argv[0]).absolute()
    if not program.is_relative_to("/usr/bin"):
        say(f"# the units expect the program at /usr/bin/ykactor: ln -s {shlex.quote(str(program))} /usr/bin/ykactor", err=True)
    if _removes_ipc(Path("/etc/systemd/logind.conf")):
        say("# RemoveIPC=no in /etc/systemd/logind.conf keeps the /dev/shm of jobs whose user logs out", err=True)
    say(f"install -m 0644 -t /etc/systemd/system {' '.join(f'{root}/systemd/{name}' for name in _UNITS)}")
    samples = f"{root}/config/shared/queues.yaml {root}/config/shared/access.yaml"
    names_host = 'sed -i "s/local-HOSTNAME/local-$(hostname)/" /etc/ykactor/access.yaml'
    say(f"mkdir -p /etc/ykactor && cp --no-clobber {samples} /etc/ykactor && {names_host}")
    say(f"systemctl daemon-reload && systemctl enable --now {' '.join(_UNITS)}")
    say("systemctl status ykactor.service ykactor-local-system.service")


def _removes_ipc(config: Path) -> bool:
    """True unless systemd is told to keep what users who log out have in shared memory."""
    try:
        lines = config.read_text().splitlines()
    except OSError:
        return True
    return "RemoveIPC=no" not in map(str.strip, lines)
