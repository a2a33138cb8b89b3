"""A daemon that tells nobody anything before a standby has it on its disk (DU-21)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from daemon import RunningDaemon, application, next_event, node, real_daemon, run_command, status_of
from test_standby import RunningStandby, assert_same, newest, standby_of

from ykactor.client import Disconnected, connect, follow
from ykactor.journal.reading import Reader
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.views.top import frame
from ykactor.wire.si import messages as si

LETS_NOBODY_IN = "this daemon lets nobody in before its standbys have everything: transaction"


class Both:
    """A daemon that wants a standby, and the standby, each with a directory."""

    def __init__(self, place: Path, *arguments: str) -> None:
        self.theirs, self.ours = place / "daemon", place / "standby"
        self.url = f"unix:{place / 'ws'}"
        self._arguments = ("--state-dir", self.theirs, "--standbys", "1", *arguments)

    @asynccontextmanager
    async def daemon(self, http: str = "none", *, is_waited_for: bool = True) -> AsyncIterator[RunningDaemon]:
        """The daemon, when it lets clients in, or as soon as its process has started."""
        ready = "daemon_started" if is_waited_for else ""
        async with real_daemon(*self._arguments, ws=["--ws", self.url], http=http, ready=ready) as daemon:
            yield daemon

    @asynccontextmanager
    async def standby(self) -> AsyncIterator[RunningStandby]:
        async with standby_of(self.url, self.ours) as standby:
            yield standby


def nodes_of(directory: Path) -> set[str]:
    """The nodes in a journal."""
    with Reader.open(directory) as reader:
        return {json.loads(key)[2] for key, _ in reader.records(b'["default","node",')}


async def test_a_request_is_answered_when_the_standby_has_it(tmp_path: Path) -> None:
    """The journal of the standby has what was acknowledged, at that moment."""
    both = Both(tmp_path)
    async with both.standby() as standby, both.daemon() as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        for number in range(20):
            await rm.request(node(f"n{number}"))
            assert f"n{number}" in nodes_of(both.ours)
        await daemon.stop()
        await standby.stop()
    assert_same(both.ours, both.theirs)


async def test_without_the_standby_nothing_is_acknowledged(tmp_path: Path) -> None:
    """The resource manager is told why, and health says so; when the standby is back, all of it is acknowledged."""
    both, told, answered = Both(tmp_path, "--standbys-wait", "0.1s"), trio.Event(), trio.Event()
    statuses: list[si.JournalStatus] = []

    def on_journal(status: si.JournalStatus) -> None:
        statuses.append(status)
        told.set()

    async with both.standby() as standby, both.daemon() as daemon, connect(daemon.url, rm_id="rm-1", on_journal=on_journal) as rm:
        await rm.request(node("n1"))
        await standby.kill()

        async def ask() -> None:
            await rm.request(node("n2"))
            answered.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await told.wait()
            assert statuses[0].writable is False
            assert "is on no standby, expected 1: none is connected" in statuses[0].reason
            assert not answered.is_set()
            health = (await run_command("health", "--url", both.url, expect=exit_codes.FAILED))[0]
            assert re.search(r"Standbys +failed .* tells nobody anything since 20.*: transaction .* is on no standby", health)
            async with both.standby():
                await answered.wait()
        await daemon.wait_logged("journal_stalled")
        assert statuses[0].reason in [line["reason"] for line in daemon.logged("journal_stalled")]


async def test_it_goes_on_alone_if_it_is_told_to(tmp_path: Path) -> None:
    """Health, log and audit say so, and when a standby has everything again."""
    both = Both(tmp_path, "--standbys-wait", "0.1s", "--without-standby", "go-on")
    async with both.daemon(http="127.0.0.1:0") as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        await rm.request(node("n1"))
        reason = (await daemon.wait_logged("without_standbys"))["reason"]
        assert "is on no standby, expected 1: none is connected" in reason
        assert await status_of(daemon.http, "/readyz") == 200
        assert "goes on alone since 20" in (await run_command("health", "--url", daemon.url, expect=exit_codes.FAILED))[0]
        async with follow(daemon.url, from_=0) as events:
            told = await next_event(events, "AUDIT_STANDBY")
            assert (told.object_id, "1 standby -> alone: transaction" in told.message) == ("journal.db", True)
            async with both.standby():
                await daemon.wait_logged("with_standbys")
                told = await next_event(events, "AUDIT_STANDBY")
                assert "alone -> 1 standby" in told.message
                await run_command("health", "--url", daemon.url)
                await rm.request(node("n2"))
                assert nodes_of(both.ours) == {"n1", "n2"}


async def test_each_standby_is_shown_by_name(tmp_path: Path) -> None:
    """Health for people and programs, the REST API, metrics and ``top`` name the standby, and say when it is gone."""
    both, socket = Both(tmp_path, "--standbys-wait", "1s", "--without-standby", "go-on"), tmp_path / "http"
    async with both.standby() as standby, both.daemon(http=f"unix:{socket}") as daemon, connect(both.url, rm_id="rm-1") as rm:
        await rm.request(node("n1"))
        sentence = rf"anybody at unix uid {os.getuid()} has transaction \d+ on its disk, the newest"
        assert re.search(sentence, (await run_command("health", "--url", both.url))[0])
        (shown,) = json.loads((await run_command("health", "--url", both.url, "-o", "json"))[0])["standbys"]["connected"]
        assert (shown["transaction"], shown["behind"], shown["counts"]) == (newest(both.ours), 0, True)
        assert re.search(sentence, (await answer_of(socket, "/ws/v1/scheduler/healthcheck"))[2])
        labels = f'{{standby="anybody",host="unix uid {os.getuid()}"}}'
        metrics = (await answer_of(socket, "/ws/v1/metrics"))[2]
        assert f"ykactor_standby_counts{labels} 1\n" in metrics
        assert f"ykactor_standby_behind_transactions{labels} 0\n" in metrics
        assert "ykactor_standbys_missed_timestamp_seconds 0.0\n" in metrics
        assert re.match(f"Standby {sentence}", (await top_of(both.url))[0])
        await standby.kill()
        await rm.request(node("n2"))
        await daemon.wait_logged("without_standbys")
        assert "Standbys: goes on alone since " in (await top_of(both.url))[0]
        assert "anybody at unix" not in (await run_command("health", "--url", both.url, expect=exit_codes.FAILED))[0]


async def top_of(url: str) -> list[str]:
    """The lines that ``top`` draws."""
    async with follow(url, from_="snapshot") as messages:
        snapshot = await anext(messages)
    assert isinstance(snapshot, si.Snapshot)
    return frame(snapshot, 24)


async def test_what_was_recovered_is_told_when_the_standby_has_it(tmp_path: Path) -> None:
    """A daemon may be killed after its commit and before the standby had it: the next one tells it only when the standby has."""
    both = Both(tmp_path)
    async with real_daemon("--state-dir", both.theirs) as alone, connect(alone.url, rm_id="rm-1") as rm:
        await rm.request(node("n1"))
        alone.process.kill()
        await alone.process.wait()
    number = newest(both.theirs)
    async with both.daemon(is_waited_for=False) as daemon:
        await daemon.wait_logged("waits_for_standbys")
        with pytest.raises(Disconnected, match=LETS_NOBODY_IN):
            await look(both)
        async with both.standby():
            await daemon.wait_logged("daemon_started")
            await look(both)
            assert newest(both.ours) > number


async def look(both: Both) -> None:
    async with follow(both.url, from_="snapshot") as messages:
        await anext(messages)


async def test_clients_of_a_daemon_that_begins_are_told_that_it_waits(tmp_path: Path) -> None:
    """A command ends with the reason, which is also in the log; one with another address goes on there."""
    both = Both(tmp_path)
    async with both.daemon(is_waited_for=False) as daemon:
        await daemon.wait_logged("waits_for_standbys")
        errors = (await run_command("asks", "--url", both.url, expect=exit_codes.FAILED))[1]
        assert f"the server replied 503 {LETS_NOBODY_IN}" in errors
        assert (await daemon.wait_logged("handshake_failed"))["status"] == 503
        async with real_daemon() as other:
            await run_command("asks", "--url", f"{both.url},{other.url}")


async def test_a_daemon_that_waits_answers_that_it_lives(tmp_path: Path) -> None:
    """``/livez`` is answered before the standbys have everything, all else refused with the reason; then all is answered."""
    both, socket = Both(tmp_path), tmp_path / "http"
    async with both.daemon(http=f"unix:{socket}", is_waited_for=False) as daemon:
        await daemon.wait_logged("waits_for_standbys")
        assert await answer_of(socket, "/livez") == (200, "", "ok\n")
        for path in ("/readyz", "/ws/v1/scheduler/healthcheck", "/ws/v1/partitions", "/ws/v1/metrics", "/openapi.json", "/"):
            status, after, body = await answer_of(socket, path)
            assert (path, status, after) == (path, 503, "2")
            assert LETS_NOBODY_IN in body
        async with both.standby():
            await daemon.wait_logged("daemon_started")
            for path in ("/livez", "/readyz", "/ws/v1/scheduler/healthcheck", "/ws/v1/partitions", "/"):
                assert (await answer_of(socket, path))[:2] == (200, "")


async def answer_of(socket: Path, path: str) -> tuple[int, str, str]:
    """The status, ``Retry-After`` and body of the answer to ``GET`` at a Unix socket."""
    async with await trio.open_unix_socket(socket) as stream:
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head, _, body = b"".join([part async for part in stream]).decode().partition("\r\n\r\n")
    first, *lines = head.splitlines()
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), headers.get("retry-after", ""), body


async def test_a_daemon_that_waits_can_be_stopped(tmp_path: Path) -> None:
    """SIGTERM ends a start that waits for a standby."""
    async with Both(tmp_path).daemon(is_waited_for=False) as daemon:
        await daemon.wait_logged("waits_for_standbys")
        assert await daemon.stop() == exit_codes.OK
        assert not daemon.logged("daemon_started")


async def test_nothing_is_copied_to_a_standby_that_has_everything(tmp_path: Path) -> None:
    """A daemon that is killed and restarted finds the standby where it was, and goes on with the next transaction."""
    both = Both(tmp_path)
    async with both.standby() as standby:
        async with both.daemon() as daemon, connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(node("n1"))
            copies = len(standby.daemon.logged("standby_gets_copy"))
            await daemon.stop()
        async with both.daemon() as daemon, connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(application())
            await daemon.stop()
        assert (copies, len(standby.daemon.logged("standby_gets_copy"))) == (0, 0)
        await standby.stop()
    assert_same(both.ours, both.theirs)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--standbys", "1"], "found --standbys without --state-dir, expected both"),
        (["--standbys-wait", "soon"], "found 'soon', expected seconds such as 2s"),
    ],
)
async def test_wrong_options(options: list[str], reason: str) -> None:
    """A mistake in the options is told at once."""
    assert reason in (await run_command("serve", *options, expect=exit_codes.USAGE))[1]
