"""The daemon that is abused, and what is seen of it from outside."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import trio
from certificates import Authority
from costs import loop_s
from daemon import LIMIT_S, RunningDaemon, application, asks, next_allocated, node, real_daemon

from ykactor.client import connect, tls_context
from ykactor.client.connection import open_connection
from ykactor.client.login import Login

_WATCHED = str(Path(__file__).with_name("watched.py"))
#: No task may hold the loop for longer than a loop of so many steps takes, which is about 100 ms.
HELD_MAX_STEPS = 6_000_000


class Target:
    """A daemon with one node, one application, one ask that runs and one that waits; its resource manager has left.

    Attributes:
        resume_from: the number from which this resource manager, ``rm-1``, goes on.
        port: where the daemon listens.
        login: what its clients need.
        authority: a file with the authority that clients trust; None: the daemon has no TLS.
    """

    def __init__(self, daemon: RunningDaemon, resume_from: int, authority: Path | None) -> None:
        self.daemon = daemon
        self.authority = authority
        self.login = Login(tls=None if authority is None else tls_context(authority))
        self.resume_from = resume_from
        self.port = int(daemon.url.rpartition(":")[2])
        self._process = Path(f"/proc/{daemon.process.pid}")
        self._holds_before = len(daemon.logged("held"))

    def memory(self) -> int:
        """Bytes of memory that are in use and are not a file's."""
        (line,) = (line for line in (self._process / "status").read_text().splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) * 1024

    def descriptors(self) -> int:
        """The number of open file descriptors."""
        return len(os.listdir(self._process / "fd"))

    async def state_hash(self) -> str:
        """The hash of a snapshot without refused applications, which are listed for a while."""
        state = await self.daemon.state()
        listed: dict[str, dict[str, Any]] = state["applications"]
        kept = {name: entry for name, entry in listed.items() if entry["state"] != "Rejected"}
        return sha256(json.dumps(state | {"applications": kept}, sort_keys=True).encode()).hexdigest()

    def check(self) -> float:
        """Nothing failed, and nothing has held the loop for too long.

        Returns the longest hold since the start in seconds; 0 if none is longer than ``watched.HELD_S``.
        """
        assert self.daemon.noise == ""
        assert self.daemon.process.returncode in (None, 0)
        assert [line for line in self.daemon.lines if "exception" in line] == []
        holds = self.daemon.logged("held")[self._holds_before :]
        longest_s: float = max((line["s"] for line in holds), default=0.0)
        assert longest_s <= loop_s(HELD_MAX_STEPS), f"found {holds}, expected no longer hold than that of {HELD_MAX_STEPS} steps"
        return longest_s


@asynccontextmanager
async def target(*arguments: str | Path, limit_s: float = LIMIT_S, has_tls: bool = False) -> AsyncIterator[Target]:
    """Run a daemon with these arguments of ``serve`` for so many seconds at most; at the end nothing must have failed."""
    with tempfile.TemporaryDirectory() as directory:
        authority, pair = _authority(Path(directory)) if has_tls else (None, [])
        async with real_daemon(*arguments, *pair, program=_WATCHED, limit_s=limit_s) as daemon:
            abused = Target(daemon, await _populate(daemon, authority), authority)
            yield abused
            abused.check()


def _authority(directory: Path) -> tuple[Path, list[str | Path]]:
    """A new authority, and the arguments of a daemon that it knows."""
    made = Authority(directory)
    made.write()
    return made.ca, ["--tls-cert", made.cert, "--tls-key", made.key]


async def _populate(daemon: RunningDaemon, authority: Path | None) -> int:
    """Put in what ``Target`` says; returns the number of the last message."""
    tls = None if authority is None else tls_context(authority)
    async with connect(daemon.url, rm_id="rm-1", tls=tls) as rm:
        await rm.request(node("n1", vcore=4000))
        await rm.request(application())
        await rm.request(asks("t1"))
        await rm.request(asks("t2", vcore=9000))
        await next_allocated(rm)
        return rm.sequence


async def returns(read: Any, bound: int, within_s: float = 60) -> None:
    """Wait until what is measured is at most ``bound``; fails if it is not in time."""
    with trio.move_on_after(within_s):
        while read() > bound:  # noqa: ASYNC110 (nothing tells when it changes)
            await trio.sleep(0.05)
    assert read() <= bound


async def round_trips(abused: Target, count: int) -> list[float]:
    """The times in seconds that a calm follower waits for its subscriptions to be confirmed, one after the other, sorted."""
    found = []
    async with open_connection(abused.daemon.url, "/v1/feed", login=abused.login) as connection:
        for _ in range(count):
            await trio.sleep(0.005)
            began_s = trio.current_time()
            await connection.send_message('{"type": "Subscribe"}')
            await connection.get_message()
            found.append(trio.current_time() - began_s)
    return sorted(found)
