"""Starts the command of a task as its user. A program of its own, with the standard library only.

Root runs it with an empty environment and reads nothing that a user can write. Its order is a JSON document in a file without a
name, its standard input: arguments and environment of a task are not for all users, as those of a process are. What it does as
root comes first: the user of the task, its control group, its limits, and ``begun``, which only one launcher can make; so an
attempt runs at most once. Then it becomes the user, and everything that the user has chosen comes after that.
"""

import json
import os
import pwd
import resource
import signal
import sys
from contextlib import suppress
from typing import Any, NamedTuple

#: Seconds in which it has to become the command: a directory of users may hang.
LIMIT_S = 30
#: The exit code of a command that could not be started.
NOT_STARTED = 125
#: The descriptor of the file for the exit code, which the command does not have.
_EXIT = 3
#: Become the command, in the shell. That it is not there is said without the words of the shell, which nobody has called.
EXECUTE = """\
case $1 in */*) [ -e "$1" ] ;; *) command -v -- "$1" > /dev/null ;; esac ||
{ command printf 'ykactor: %s: command not found\\n' "$1" >&2; exit 127; }
exec "$@"
"""
# A signal to the group is the command's business: the shell stays, and says how the command has ended.
_SHELL = f"""\
trap : TERM INT HUP QUIT ALRM PIPE USR1 USR2
(exec 3>&-
{EXECUTE})
echo $? >&3
kill -KILL 0
"""
_TEXT_MAX = 1000


def main() -> None:
    signal.alarm(LIMIT_S)
    _start(json.loads(sys.stdin.buffer.read()))


def _start(order: dict[str, Any]) -> None:
    problem: Exception | None = None
    try:
        account = _account(order["uid"])
        _enter(order["group"])
        _as_a_login_has_it()
    except (OSError, ValueError) as error:
        problem = error
    if not _begin(order["begun"]):
        return
    ending = os.open(order["exit"], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if problem is not None:
            raise problem
        _become(account)
        os.umask(order["umask"])
        _run(order, ending)
    except (OSError, ValueError, MemoryError) as error:
        reason = f"the command cannot be started: {error}".replace("\n", " ")[:_TEXT_MAX]
        os.write(ending, f"{NOT_STARTED} {reason}\n".encode(errors="replace"))


class _Account(NamedTuple):
    uid: int
    gid: int
    groups: list[int]


def _account(uid: int) -> _Account:
    """The user in the directory of users, which may take long.

    Raises:  ValueError.
    """
    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        raise ValueError(f"found the user {uid}, expected one that getent passwd knows") from None
    return _Account(uid, found.pw_gid, os.getgrouplist(found.pw_name, found.pw_gid))


def _enter(group: str) -> None:
    """Enter a control group; "" is that of the local resource manager.

    Raises:  OSError.
    """
    if group:
        with open(f"{group}/cgroup.procs", "w") as procs:
            procs.write("0")


def _as_a_login_has_it() -> None:
    """Undo what the service manager has set for the local resource manager, and Python for itself."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("0")
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _set_limits(limits: dict[str, int]) -> None:
    """Set soft limits, as late as possible: with those of a user, this program may not be able to do or to say anything."""
    for name, soft in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (soft if 0 <= soft <= hard or hard < 0 else hard, hard))


def _begin(path: str) -> bool:
    """Make the file that says that this process has begun; False if there is one."""
    own = f"{path}.{os.getpid()}"
    with open(own, "w") as file:
        file.write(f"{os.getpid()} {start_time(os.getpid())}\n")
    try:
        os.link(own, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(own)
    return True


def _become(account: _Account) -> None:
    """Be a user for good.

    Raises:  OSError, ValueError: it is root, or this process may not become the user.
    """
    uid, gid, groups = account
    if not uid:
        raise ValueError("found the user root, expected another one")
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise OSError(f"found the user {os.getresuid()}, expected {uid}")


def _run(order: dict[str, Any], ending: int) -> None:
    """Become the shell that runs the command.

    Raises:  OSError, ValueError.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    output, errors = (os.open(f"{order['attempt']}/{name}", flags, 0o600) for name in ("out", "err"))
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.chdir(_bytes(order["directory"]))
    words = [b"sh", b"-c", _SHELL.encode(), b"sh", *map(_bytes, order["arguments"])]
    environ = dict(entry.partition(b"=")[::2] for entry in map(_bytes, order["environ"]))
    for target, source in enumerate([os.dup(each) for each in (nothing, output, errors, ending)]):
        os.dup2(source, target)
    signal.alarm(0)
    _set_limits(order["limits"])
    os.execve("/bin/sh", words, environ)


def start_time(pid: int) -> str:
    """The start of a process in ticks since that of the machine: no two processes with one number have the same."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[19].decode()


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


if __name__ == "__main__":
    main()
