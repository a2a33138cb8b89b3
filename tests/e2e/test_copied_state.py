"""State directories that were copied, or put back to a copy: nobody sees two things under one number of a term (EV-55, DU-18)."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from daemon import RunningDaemon, application, asks, next_allocated, node, real_daemon

from ykactor.client import RequestRefused, connect, follow
from ykactor.client.connection import MessageStream, open_connection
from ykactor.client.resource_manager import ResourceManager
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

RM = "rm-1"


class History:
    """The output of a daemon: its term, and all events and messages in order; the first has the number 1."""

    def __init__(self, term: str, events: list[si.EventRecord], messages: list[si.Response]) -> None:
        self.term = term
        self.events = events
        self.messages = messages


async def work(rm: ResourceManager, name: str) -> None:
    """Something that another daemon does not do."""
    await rm.request(node(f"n-{name}", vcore=4000))
    await rm.request(application(name))
    await rm.request(asks(f"{name}-1", f"{name}-2", of=name))
    await next_allocated(rm, 2)


async def told(daemon: RunningDaemon, before: History | None = None) -> History:
    """All that a daemon has told so far; the messages up to those of the daemon before it are taken from there."""
    async with follow(daemon.url, from_="snapshot") as follower:
        state = await anext(follower)
    assert isinstance(state, si.Snapshot)
    events: list[si.EventRecord] = []
    async with follow(daemon.url, from_=0) as follower:
        async for event in follower:
            assert isinstance(event, si.EventRecord)
            events.append(event)
            if event.sequence == state.sequence:
                break
    return History(state.term, events, await _messages(daemon))


async def _messages(daemon: RunningDaemon) -> list[si.Response]:
    """All messages of the registration up to the answer of this session; number 0 is before the first one of any history."""
    found: list[si.Response] = []
    async with open_connection(daemon.url, "/v1/rm", subprotocols=[JSON.name]) as connection:
        stream = MessageStream(connection, JSON)
        await stream.send(si.RegisterResourceManagerRequest(rm_id=RM, id="all", resume_from=0))
        while not (found and isinstance(found[-1], si.Ack) and found[-1].id == "all"):
            found.append(JSON.decode_response(await stream.receive()))
    return found


@asynccontextmanager
async def copies(place: Path) -> AsyncIterator[tuple[History, list[tuple[RunningDaemon, History]]]]:
    """A daemon that was killed, with what it has told, and three that go on from its directory, as it is and as it was."""
    original = place / "original"
    async with real_daemon("--state-dir", original) as first, connect(first.url, rm_id=RM) as rm:
        await work(rm, "early")
        shutil.copytree(original, place / "earlier")
        await work(rm, "late")
        shutil.copytree(original, place / "later")
        await work(rm, "last")
        before = await told(first)
        first.process.kill()
        await first.process.wait()
    async with AsyncExitStack() as stack:
        daemons = []
        for name in ("original", "earlier", "later"):
            daemon = await stack.enter_async_context(real_daemon("--state-dir", place / name))
            async with connect(daemon.url, rm_id=RM, resume_from="now") as rm:
                for number in range(3):
                    await work(rm, f"{name}-{number}")
            daemons.append((daemon, await told(daemon)))
        yield before, daemons


async def test_nobody_is_told_another_history(tmp_path: Path) -> None:
    """Followers and resource managers resume with every number of every term at every daemon.

    Who goes on has seen what the daemon has told before this number; who has not gets the state, or is told to register anew.
    """
    async with copies(tmp_path) as (before, daemons):
        owners = [before, *(history for _, history in daemons)]
        assert len({owner.term for owner in owners}) == len(owners)
        outcomes: set[tuple[str, bool]] = set()
        for daemon, history in daemons:
            async with open_connection(daemon.url, "/v1/feed", subprotocols=[JSON.name]) as connection:
                stream = MessageStream(connection, JSON)
                for owner in owners:
                    for number in range(len(owner.events) + 1):
                        goes_on = await _resumes(stream, number, owner.term)
                        is_same = owner.events[:number] == history.events[:number]
                        outcomes.add(("follower", goes_on))
                        assert is_same or not goes_on, f"event {number} of {owner.term}"
                        assert goes_on or not (is_same and owner is before), f"event {number} of {owner.term} is there"
            for owner in owners:
                for number in range(0, len(owner.messages) + 1, 4):
                    goes_on = await _registers(daemon, number, owner.term)
                    is_same = owner.messages[:number] == history.messages[:number]
                    outcomes.add(("resource manager", goes_on))
                    assert is_same or not goes_on, f"message {number} of {owner.term}"
                    assert goes_on or not (is_same and owner is before), f"message {number} of {owner.term} is there"
        assert len(outcomes) == 4


async def _resumes(stream: MessageStream, number: int, term: str) -> bool:
    """True if a follower goes on; otherwise it gets the state, with the reason."""
    await stream.send(si.Subscribe(from_=number, term=term, applications=["none"]))
    while True:
        answer = JSON.decode_feed(await stream.receive())
        if isinstance(answer, si.Snapshot):
            assert answer.reason.startswith(("found term ", "found event "))
            assert answer.term
            return False
        if isinstance(answer, si.Bookmark) and answer.sequence == number:
            return True


async def _registers(daemon: RunningDaemon, number: int, term: str) -> bool:
    """True if a resource manager goes on."""
    try:
        async with connect(daemon.url, rm_id=RM, resume_from=number, term=term):
            return True
    except RequestRefused as refused:
        if (refused.code, refused.path) != ("RESYNC_REQUIRED", "term"):
            raise
        return False


async def test_clients_go_on_by_themselves(tmp_path: Path) -> None:
    """A client that stays gets the state of the copy with the reason; an older client's number without a term is not believed."""
    state = tmp_path / "state"
    async with real_daemon("--state-dir", state) as first, connect(first.url, rm_id=RM) as rm:
        await work(rm, "early")
        shutil.copytree(state, tmp_path / "copy")
        await work(rm, "late")
        seen, term = rm.sequence, rm.term
        async with follow(first.url, from_="snapshot") as follower:
            number = (await anext(follower)).sequence
        first.process.kill()
        await first.process.wait()
    async with real_daemon("--state-dir", tmp_path / "copy") as second:
        async with connect(second.url, rm_id=RM, resume_from="now") as rm:
            for name in ("a", "b", "c"):
                await work(rm, name)
        said: list[str] = []
        async with follow(second.url, from_=number, term=term, on_connection=said.append) as follower:
            instead = await anext(follower)
            assert isinstance(instead, si.Snapshot)
            assert "goes on from an older copy" in instead.reason
            assert instead.reason in said[0]
        await second.stop()
    async with real_daemon("--state-dir", tmp_path / "copy") as third:
        with pytest.raises(RequestRefused, match=f"RESYNC_REQUIRED: term: found message {seen} without a term"):
            async with connect(third.url, rm_id=RM, resume_from=seen):
                raise NotImplementedError
        async with follow(third.url, from_=number) as follower:  # any history will do
            assert (await anext(follower)).sequence == number + 1
