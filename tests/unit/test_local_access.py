"""The local resource manager checks requests of clients, hides what is not theirs, and counts; plain functions."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from localjobs import job_of
from msgspec import structs
from trio.testing import MockClock

from ykactor.local import quotas, system, users, waiting
from ykactor.local.access import Access, Principal, System, may
from ykactor.local.checks import ARGUMENTS_MAX, ENVIRON_MAX, checked
from ykactor.local.jobs import SubmitRefused
from ykactor.local.login import Login
from ykactor.local.model import After, Job
from ykactor.local.quotas import Quotas, full_disk
from ykactor.local.serving import Caller
from ykactor.local.streams import Streams
from ykactor.local.system import NotSafe, check_files
from ykactor.local.users import Account, LookupFailed, Users
from ykactor.wire.sockets import groups

DESCENDING: list[list[tuple[int, int]]] = [[(1, 2), (2, 3)], [(2, 3), (1, 1)], [(1, 2)], [(-1, 3)]]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"token": ""}, "token"),
    ({"token": "é"}, "token"),
    ({"name": "x" * 256}, "found a name of 256 characters"),
    ({"name": "a\x1b[2J"}, "no control characters"),
    ({"queue": "root\n"}, "no control characters"),
    ({"arguments": []}, "found no command"),
    ({"arguments": [b"a\0b"]}, "or a NUL in it"),
    ({"arguments": [b"x" * ARGUMENTS_MAX]}, "bytes of arguments"),
    ({"environ": [b"x"]}, "expected NAME=VALUE"),
    ({"environ": [b"x=" + b"x" * ENVIRON_MAX]}, "bytes of environment variables"),
    ({"directory": b"tmp"}, "expected an absolute path"),
    ({"directory": b"/\0"}, "expected an absolute path"),
    ({"resource": {"vcore": -1}}, "found -1 of 'vcore'"),
    ({"resource": {"memory": 2**63}}, "of 'memory'"),
    ({"resource": {"a b": 1}}, "of 'a b'"),
    ({"resource": {str(number): 1 for number in range(101)}}, "found 101 resource types"),
    ({"priority": 2**31}, "found the priority"),
    ({"time_limit_s": float("nan")}, "found a time limit"),
    ({"time_limit_s": float("inf")}, "found a time limit"),
    ({"time_limit_s": -1.0}, "found a time limit"),
    ({"retries": 101}, "found 101 retries"),
    ({"first": -1}, "found the tasks -1 to 0"),
    ({"first": 1}, "found the tasks 1 to 0"),
    ({"last": 2**63}, "with indexes of 0 to"),
    ({"last": 10_000}, "found 10001 tasks"),
    ({"last": 1_000, "is_gang": True}, "found 1001 tasks"),
    *(({"first": 1, "last": 3, "ranges": ranges}, "that ascend from 1 to 3") for ranges in DESCENDING),
    ({"last": 3, "ranges": [(0, 2**40), (2**40 + 1, 3)]}, "that ascend from 0 to 3"),
    ({"ranges": [(0, 0)] * 10_001}, "found 10001 ranges"),
    ({"begin_ns": -1}, "found the begin"),
    ({"begin_ns": 253_402_300_799 * 10**9 + 1}, "found the begin"),
    ({"after": [After("job-1")] * 21}, "found 21 of --after, expected at most 20"),
    ({"after": [After("j" * 65)]}, "found --after with more than 64 characters"),
    ({"is_gang": True, "retries": 1}, "found a gang with retries"),
    ({"script": b"true"}, "the script: found no program"),
    ({"script": b"#!/bin/sh\n" * 2**14}, "found a script of"),
    ({"login": Login(umask=-1)}, "found the umask"),
    ({"login": Login(limits={"MEMLOCK": 1})}, "found the limits"),
    ({"login": Login(limits={"CORE": 2**63})}, "found the limits"),
]


@pytest.mark.parametrize(("fields", "reason"), WRONG)
def test_a_job_that_is_none_is_refused(fields: dict[str, Any], reason: str) -> None:
    """Any process of a user may send anything."""
    with pytest.raises(SubmitRefused, match=reason.replace("[", r"\[")):
        checked(job_of("true", **fields))


def test_the_last_moment_at_which_a_job_may_begin_has_a_name() -> None:
    """The reason of a task that waits names its time, which is rounded up to a second."""
    last_ns = 253_402_300_799 * 10**9
    assert checked(job_of("true", begin_ns=last_ns)).begin_ns == last_ns
    assert waiting._time(last_ns) == "9999-12-31T23:59:59Z"


def job(uid: int, number: int = 1, **fields: Any) -> Job:
    return job_of("true", **{"id": f"job-{number}", "user": f"u{uid}", "login": Login(uid)} | fields)


@pytest.mark.parametrize(("uid", "is_operator", "is_allowed"), [(1, False, True), (2, False, False), (2, True, True)])
def test_only_its_user_and_operators_act_on_a_job(uid: int, is_operator: bool, is_allowed: bool) -> None:
    """Uids are compared, and not names."""
    assert (may(Principal(uid, is_operator), "cancel", job(1)) == "") is is_allowed


async def test_who_may_connect_to_that_of_the_machine() -> None:
    """Root, and users from a number on; not the one that stands for all whom a namespace does not know."""
    access = Access(System(-1, "", 1000), "")
    assert [access.refusal(Caller(uid, 1)) == "" for uid in (0, 1, 999, 1000, 65534, 70_000)] == [
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def test_connections_are_kept_for_root_and_operators() -> None:
    """They are known by what the kernel says of their process."""
    first, other = socket.socketpair()
    with first, other:
        assert groups(first) == {os.getegid(), *os.getgroups()}
    access = Access(System(-1, "staff", 1000, 50), "")
    callers = Caller(0, 1), Caller(1000, 1, frozenset({1000, 50})), Caller(1000, 1, frozenset({1000}))
    assert [access.comes_first(caller) for caller in callers] == [True, True, False]
    assert not Access(System(-1, "", 1000), "").comes_first(callers[2])


async def test_a_job_is_one_of_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it says of itself."""
    monkeypatch.setattr(users, "groups_of", lambda uid: ["staff"])
    monkeypatch.setattr(users, "user_name", lambda uid: "alice")
    access = Access(System(-1, "", 1000), "")
    forged = job_of("true", id="job-9", user="root", placed_in="root.x", login=Login(0, ["root"]), resource={"memory": 2**20})
    taken = await access.submitted(await access.principal(Caller(1000, 1)), forged)
    assert (taken.id, taken.user, taken.placed_in, taken.login) == ("", "alice", "", Login(1000, ["staff"]))
    assert taken.token == f"1000/{forged.token}"


async def test_the_name_of_a_number_is_that_of_its_user_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users without a name are called like that."""
    monkeypatch.setattr(users, "groups_of", lambda uid: [])
    monkeypatch.setattr(users, "user_name", lambda uid: "uid1001")
    assert (await Users().account(1001)).name == "uid1001"
    with pytest.raises(LookupFailed, match="that of a user without a name"):
        await Users().account(1000)


async def test_a_directory_of_users_that_does_not_answer_holds_nobody_for_long(
    monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """Known users stay known; others are refused, after the first one at once; when the directory answers again all are known."""
    hangs, begun, ends, asked = False, threading.Event(), threading.Event(), list[int]()

    def account(uid: int) -> Account:
        asked.append(uid)
        if hangs:
            begun.set()
            ends.wait()
        return Account(f"u{uid}", [])

    async def refused(uid: int) -> None:
        with pytest.raises(LookupFailed, match=f"found no answer of the directory of users about {uid}"):
            await known.account(uid)

    monkeypatch.setattr(users, "_account", account)
    known = Users()
    assert (await known.account(1000)).name == "u1000"
    hangs = True
    mock_clock.jump(users.KEPT_S)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refused, 1001)
            await trio.to_thread.run_sync(begun.wait)
            mock_clock.jump(users.ANSWER_S)
        for _ in range(20):
            await refused(1001)
            assert (await known.account(1000)).name == "u1000"
        assert asked == [1000, 1001]
    finally:
        ends.set()
    mock_clock.jump(users.SILENT_S)
    assert (await known.account(1001)).name == "u1001"


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(0, 9)), max_size=30))
def test_what_has_ended_counts_no_longer(steps: list[tuple[int, int, int]]) -> None:
    """A job counts once, however often it is added, until it is removed; another user's never."""
    counted = Quotas()
    present: dict[int, Job] = {}
    for number, uid, last in steps:
        if number in present:
            counted.remove(f"job-{number}")
            del present[number]
        else:
            present[number] = job(uid, number, last=last)
            counted.add(present[number])
            counted.add(present[number])
    for uid in (1, 2, 3):
        taken = sum(each.count for each in present.values() if each.login == Login(uid))
        most = quotas.TASKS_EACH - taken
        assert counted.refusal(job(uid, 9, last=most - 1)) == ""
        assert counted.refusal(job(uid, 9, last=most)).startswith(f"found {taken} tasks of u{uid}")


@pytest.mark.parametrize("field", ["script", "on_end", "directory", "streams", "arguments", "environ"])
def test_jobs_of_a_user_have_a_bound(monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    """All of a job is kept on the disk of the machine."""
    monkeypatch.setattr(quotas, "BYTES_EACH", 5000)
    counted, text = Quotas(), b"x" * 3000
    large = job(
        1, **{field: Streams(error=text) if field == "streams" else [text] if field in ("arguments", "environ") else text}
    )
    counted.add(large)
    assert "bytes of jobs of u1, expected room for" in counted.refusal(structs.replace(large, id="job-2"))
    assert counted.refusal(job(2, 2)) == ""


@pytest.mark.parametrize(("blocks", "free", "is_full"), [(2**40, 2**30, False), (2**40, 2**30 - 1, True), (10_000, 200, False)])
def test_a_disk_has_to_keep_room(monkeypatch: pytest.MonkeyPatch, blocks: int, free: int, is_full: bool) -> None:
    """The machine goes on whatever users submit; a small disk needs only a share."""
    found = SimpleNamespace(f_bavail=free, f_frsize=1, f_blocks=blocks)
    monkeypatch.setattr(quotas.os, "statvfs", lambda path: found)
    assert bool(full_disk([Path("/")])) is is_full


def _foreign(path: Path) -> None:
    system.os.chown(path, 65534, -1)


def _open(path: Path) -> None:
    path.chmod(0o666)


def _group(path: Path) -> None:
    system.os.chown(path, -1, 65534)
    path.chmod(0o660)


@pytest.mark.skipif(system.os.geteuid() != 0, reason="only root has files that only root can write")
@pytest.mark.parametrize("spoil", [_foreign, _open, _group])
@pytest.mark.parametrize("is_directory", [True, False])
def test_root_runs_nothing_that_others_can_write(tmp_path: Path, spoil: Callable[[Path], None], is_directory: bool) -> None:
    """Neither the file nor a directory on the way to it."""
    file = tmp_path / "module.py"
    file.touch(0o644)
    check_files({str(file)})
    spoil(tmp_path if is_directory else file)
    with pytest.raises(NotSafe, match="expected that only root may change"):
        check_files({str(file)})


@pytest.mark.parametrize("address", ["ws://127.0.0.1:9081", "unix:/tmp/not-there-yet/ws.sock"])
def test_root_follows_no_daemon_that_others_can_be(address: str) -> None:
    """Any user may bind a port, or make a directory in /tmp, while the daemon is away."""
    with pytest.raises(NotSafe):
        system.check_address(address)
