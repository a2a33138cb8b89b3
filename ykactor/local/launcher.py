"""Starts the command of a task as its user. A program of its own, with the standard library only.

Root runs it with an empty environment and reads nothing that a user can write. Its order is a JSON document in a file without a
name, its standard input: arguments and environment of a task are not for all users, as those of a process are. What it does as
root comes first: the user of the task, its control group, its limits, and ``begun``, which only one launcher can make; so an
attempt runs at most once. Then it becomes the user, and everything that the user has chosen comes after that.

With words, it is run as the user, in the shell of a task of this user, and only opens the files of the task (see ``_redirect``).
"""

import errno
import json
import os
import pwd
import resource
import select
import signal
import stat
import sys
from contextlib import suppress
from typing import Any, NamedTuple

#: Seconds in which it has to become the command: a directory of users may hang.
LIMIT_S = 30
#: Seconds for an answer of the directory of users, and how often it is asked.
ANSWER_S, _TRIES = 8.0, 3
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
# The shell takes the terminal that its next word names, unless this is empty: the first that a session without one opens is its
# own. One that is gone, or is that of another session by now, is none. The shell ends with the other end of its terminal.
TERMINAL = """\
if [ -n "$1" ]; then
( : <> "$1" ) 2> /dev/null && exec <> "$1" >&0 2>&0 && ( : < /dev/tty ) 2> /dev/null ||
{ echo "125 the command cannot be started: its terminal is gone" TOLD; exit 125; }
trap - HUP
fi
shift
"""
# A signal to the group is the command's business: the shell stays, and says how the command has ended.
_SHELL = f"""\
trap : TERM INT HUP QUIT ALRM PIPE USR1 USR2
{TERMINAL.replace("TOLD", ">&3")}(exec 3>&-
{EXECUTE})
echo $? >&3
kill -KILL 0
"""
_TEXT_MAX = 1000


def main() -> None:
    signal.alarm(LIMIT_S)
    if len(sys.argv) > 1:
        _redirect(*map(os.fsencode, sys.argv[1:]))
    else:
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
        os.write(ending, _not_started(error))


def _not_started(error: Exception) -> bytes:
    """The end of an attempt whose command could not be started."""
    reason = f"the command cannot be started: {error}".replace("\n", " ")[:_TEXT_MAX]
    return f"{NOT_STARTED} {reason}\n".encode(errors="replace")


class _Account(NamedTuple):
    uid: int
    gid: int
    groups: list[int]


def _account(uid: int) -> _Account:
    """The user in the directory of users.

    Raises:  ValueError: it is not there, or there is no answer.
    """
    for _ in range(_TRIES):
        if answer := _answer(uid):
            found: _Account | None = json.loads(answer)
            if found is None:
                raise ValueError(f"found the user {uid}, expected one that getent passwd knows")
            return _Account(*found)
    raise ValueError(f"found no answer of the directory of users about {uid} in {_TRIES} times {ANSWER_S:g} s")


def _answer(uid: int) -> bytes:
    """The account of a user, or null, as JSON; "" if there is no answer in time. A process asks that can be killed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(writing, json.dumps(_found(uid)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    answer = b""
    with open(reading, "rb") as file:
        if select.select([file], [], [], ANSWER_S)[0]:
            answer = file.read()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return answer


def _found(uid: int) -> _Account | None:
    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        return None
    return _Account(uid, account.pw_gid, os.getgrouplist(account.pw_name, account.pw_gid))


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
    attempt = _bytes(order["attempt"])
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    usual = [os.open(os.devnull, os.O_RDONLY), *(os.open(attempt + name, flags, 0o600) for name in _NAMES)]
    if script := _bytes(order["script"]):
        new = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(os.open(attempt + b"/script", new, 0o700), "wb") as file:
            file.write(script)
    os.chdir(_bytes(order["directory"]))
    words = [b"sh", b"-c", _SHELL.encode(), b"sh", *map(_bytes, [order["terminal"], *order["arguments"]])]
    environ = dict(entry.partition(b"=")[::2] for entry in map(_bytes, order["environ"]))
    _take([*usual, ending])
    _open_files(attempt, order["files"])
    signal.alarm(0)
    _set_limits(order["limits"])
    os.execve("/bin/sh", words, environ)


#: Standard output and error in the directory of an attempt.
_NAMES = (b"/out", b"/err")


def _redirect(attempt: bytes, files: bytes, *arguments: bytes) -> None:
    """Open the files of a task, and become its command; standard input, output and error are the usual ones until then.

    Args:
        files: as of an order.
    """
    try:
        _open_files(attempt, json.loads(files))
    except (OSError, ValueError) as error:
        with suppress(OSError), open(attempt + b"/exit", "xb") as ending:
            ending.write(_not_started(error))
        sys.exit(NOT_STARTED)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    with open("/proc/self/environ", "rb") as file:  # without what Python has added
        environ = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0") if entry)
    signal.alarm(0)
    os.execve("/bin/sh", [b"sh", b"-c", EXECUTE.encode(), b"sh", *arguments], environ)


def _open_files(attempt: bytes, files: list[tuple[str, bool]]) -> None:
    """Make the files that were named standard input, output and error, one after the other, as a shell does.

    Each file for output that is ready gets a link in the directory of the attempt, by which it is found. A name such as
    ``/dev/stdout`` can lead to a file of this directory: that stays.

    Args:
        files: the paths that were named for them, "" for none, and whether each is emptied; may be empty.

    Raises:  OSError, ValueError.
    """
    for place, (text, is_emptied) in enumerate(files):
        path = _bytes(text)
        if not path:
            continue
        if place == 0:
            os.dup2(_file(b"--input", path, os.O_RDONLY), 0)
        elif place == 2 and text == files[1][0]:
            os.dup2(1, 2)
        else:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | (os.O_TRUNC if is_emptied else 0)
            name, usual = attempt + _NAMES[place - 1], os.fstat(place)
            opened = _file((b"--output", b"--error")[place - 1], path, flags)
            if os.path.samestat(os.fstat(opened), usual):
                continue
            if place == 2 and os.path.samestat(os.fstat(1), usual):
                raise ValueError(f"--error {os.fsdecode(path)}: found --output to standard error, expected one file for both")
            os.dup2(opened, place)
            with suppress(FileNotFoundError):
                os.unlink(name)
            os.symlink(os.readlink(f"/proc/self/fd/{place}"), name)


def _file(option: bytes, path: bytes, flags: int) -> int:
    """Open a file that a user has named, without waiting for the other end of a FIFO.

    Raises:  ValueError: it cannot be opened.
    """
    name = os.fsdecode(option + b" " + path)
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, 0o666)
    except OSError as error:
        nobody = ", or nobody reads this FIFO" if error.errno == errno.ENXIO else ""
        raise ValueError(f"{name}: {error.strerror}{nobody}") from None
    kind = os.fstat(descriptor).st_mode
    if flags == os.O_RDONLY and (stat.S_ISDIR(kind) or stat.S_ISFIFO(kind)):  # a FIFO without a writer has ended already
        raise ValueError(f"{name}: found a directory or a FIFO, expected a file")
    os.set_blocking(descriptor, True)
    return descriptor


def _take(descriptors: list[int]) -> None:
    """Make these the first descriptors."""
    for target, source in enumerate([os.dup(each) for each in descriptors]):
        os.dup2(source, target)


def start_time(pid: int) -> str:
    """The start of a process in ticks since that of the machine: no two processes with one number have the same."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[19].decode()


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


if __name__ == "__main__":
    main()
