"""While a configuration is read, which can take minutes, only other configurations wait."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from daemon import application, asks, next_allocated, node
from daemonhere import apply_config, daemon_here
from doubles import running_daemon
from msgspec import structs
from world import queue, tree

from ykactor.actors.partitions import Partitions
from ykactor.client import Disconnected, RequestRefused, connect
from ykactor.client.connection import open_connection
from ykactor.core.config.model import SchedulerConfig
from ykactor.surfaces.daemon.daemon import Daemon
from ykactor.surfaces.daemon.reloading import Reloading, Source
from ykactor.surfaces.files import config_loader
from ykactor.surfaces.files.daemon_rows import ChangeRow, DaemonRows
from ykactor.surfaces.sessions.config_updates import WAITING_MAX
from ykactor.surfaces.sessions.peer import Limits
from ykactor.wire import queuefile
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON
from ykactor.wire.si.protocol_error import ProtocolError

FIRST = tree(queue("a"))
SECOND = tree(queue("a"), queue("b"))
THIRD = tree(queue("a"), queue("c"))


class SlowLoader:
    """Reads texts when ``go`` is set, and notes them."""

    def __init__(self) -> None:
        self.go = trio.Event()
        self.begun: list[str] = []
        self.grown = trio.Event()

    async def load(self, text: str, source: str) -> SchedulerConfig:
        self.begun.append(text)
        self.grown.set()
        self.grown = trio.Event()
        await self.go.wait()
        return queuefile.load(text, source)

    async def wait_begun(self, count: int = 1) -> None:
        while len(self.begun) < count:
            await self.grown.wait()


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> SlowLoader:
    """The loader that every configuration waits for."""
    slow = SlowLoader()
    monkeypatch.setattr(config_loader, "load_config", slow.load)
    return slow


def update(text: str, request_id: str = "") -> si.UpdateConfigurationRequest:
    return si.UpdateConfigurationRequest(id=request_id, config=text)


def leaves(daemon: Daemon) -> list[str]:
    return [path for path in daemon.queue_paths("default") if path != "root"]


async def test_a_session_goes_on_while_its_configuration_is_read(loader: SlowLoader) -> None:
    """Other requests of the session are carried out and answered; the ``Ack`` of the configuration comes when it is in force."""
    async with daemon_here(FIRST) as (daemon, url), connect(url, rm_id="rm-1") as rm:
        await rm.send(update(SECOND, "slow"))
        await loader.wait_begun()
        await rm.request(node())
        await rm.request(application(queue="root.a"))
        await rm.request(asks("t1"))
        assert await next_allocated(rm) == [("t1", "n1")]
        assert leaves(daemon) == ["root.a"]
        loader.go.set()
        async for response in rm:
            if isinstance(response, si.Ack):
                break
        assert (response.id, response.checksum) == ("slow", queuefile.load(SECOND).checksum)
        assert leaves(daemon) == ["root.a", "root.b"]


async def test_a_resource_manager_registers_while_the_file_is_read(loader: SlowLoader) -> None:
    """The watcher's configuration holds up nobody."""
    async with daemon_here(FIRST) as (daemon, url), trio.open_nursery() as nursery:
        nursery.start_soon(apply_config, daemon, SECOND, "")
        await loader.wait_begun()
        async with connect(url, rm_id="rm-1") as rm:
            await rm.request(node())
        assert leaves(daemon) == ["root.a"]
        loader.go.set()
    assert leaves(daemon) == ["root.a", "root.b"]


async def test_a_resumed_session_gets_the_ack(loader: SlowLoader) -> None:
    """The configuration of a lost session is still put into force, because its registration goes on."""
    async with daemon_here(FIRST) as (daemon, url):
        async with connect(url, rm_id="rm-1") as rm:
            await rm.send(update(SECOND, "slow"))
            await loader.wait_begun()
        async with connect(url, rm_id="rm-1", resume_from="now") as rm:
            loader.go.set()
            assert (await anext(rm)).id == "slow"  # type: ignore[union-attr]
            assert leaves(daemon) == ["root.a", "root.b"]


async def test_a_fresh_registration_drops_the_configuration_of_the_one_before(loader: SlowLoader) -> None:
    """SC-141: nothing of the earlier registration takes effect any more, neither what is read nor what waits."""
    async with daemon_here(FIRST) as (daemon, url):
        async with connect(url, rm_id="rm-1") as rm:
            await rm.send(update(SECOND))
            await rm.send(update(THIRD))
            await loader.wait_begun()
        async with connect(url, rm_id="rm-1") as rm:
            loader.go.set()
            with pytest.raises(RequestRefused):
                await rm.request(update("partitions: 3"))  # behind the others
            assert leaves(daemon) == ["root.a"]
        assert loader.begun == [SECOND, "partitions: 3"]


async def test_configurations_keep_their_order_over_sessions(loader: SlowLoader) -> None:
    """The last one wins, also if it is of a session that resumes, and earlier ones wait."""
    async with daemon_here(FIRST) as (_, url):
        async with connect(url, rm_id="rm-1") as rm:
            await rm.send(update(SECOND))
            await loader.wait_begun()
            await rm.send(update(SECOND))
            await rm.request(node())
        async with connect(url, rm_id="rm-1", resume_from="now") as rm:
            await rm.send(update(THIRD, "last"))
            await rm.request(node("n2"))
            loader.go.set()
            async for response in rm:
                if isinstance(response, si.Ack):
                    break
            assert response.id == "last"
    assert loader.begun == [SECOND, SECOND, THIRD]


async def test_few_may_wait_over_sessions(loader: SlowLoader) -> None:
    """A client that comes again and again cannot fill the memory with what waits."""
    async with daemon_here(FIRST) as (_, url):
        async with connect(url, rm_id="rm-1") as rm:
            await rm.send(update(SECOND))
            await loader.wait_begun()
            for _ in range(WAITING_MAX):
                await rm.send(update(SECOND))
            await rm.request(node())
        async with connect(url, rm_id="rm-1", resume_from="now") as rm:
            with pytest.raises(RequestRefused) as refused:
                await rm.request(update(FIRST))
            assert refused.value.code == "UNAVAILABLE"


async def test_an_error_of_the_loader_ends_nothing(loader: SlowLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is refused, the session and the daemon go on, and so do later configurations."""
    async with daemon_here(FIRST) as (_, url), connect(url, rm_id="rm-1") as rm:
        loader.go.set()
        with monkeypatch.context() as broken:
            broken.setattr(queuefile, "load", None)
            with pytest.raises(RequestRefused, match="an error of the daemon"):
                await rm.request(update(SECOND))
        await rm.request(update(SECOND))


async def test_a_deregistration_waits_for_no_configuration(loader: SlowLoader) -> None:
    """SC-142: another resource manager may register although the loader has not ended."""
    async with daemon_here(FIRST) as (daemon, url):
        async with connect(url, rm_id="rm-1") as rm:
            await rm.send(update(SECOND))
            await loader.wait_begun()
            await rm.request(si.DeregisterResourceManagerRequest())
            with pytest.raises(Disconnected):
                async for _ in rm:
                    pass
        async with connect(url, rm_id="rm-2") as rm:
            loader.go.set()
            await rm.request(update(THIRD))
            assert leaves(daemon) == ["root.a", "root.c"]


async def test_whoever_registers_first_has_the_daemon(loader: SlowLoader) -> None:
    """SC-142: a registration whose configuration is still being read holds nothing, and changes nothing when it is too late."""
    async with daemon_here(FIRST) as (daemon, url), trio.open_nursery() as nursery:
        is_refused = trio.Event()

        async def register_slowly() -> None:
            with pytest.raises(
                RequestRefused, match="registration of RM failed: found rm-1: RM rm-2 has been registered"
            ) as refused:
                async with connect(url, rm_id="rm-1", config=SECOND):
                    pass
            assert refused.value.code == "ALREADY_REGISTERED"
            is_refused.set()

        nursery.start_soon(register_slowly)
        await loader.wait_begun()
        async with connect(url, rm_id="rm-2") as rm:
            await rm.request(node())
            loader.go.set()
            await is_refused.wait()
            assert leaves(daemon) == ["root.a"]
            assert len(daemon.registry(next(iter(daemon.partitions))).nodes) == 1


async def test_who_is_gone_does_not_delay_a_second_attempt(loader: SlowLoader) -> None:
    """The configuration of a registration is not read any further when the connection has ended, nor one that waits."""
    async with daemon_here(FIRST) as (_, url):

        def register(text: str) -> str:
            return JSON.encode(si.RegisterResourceManagerRequest(rm_id="rm-1", config=text)).decode()

        async with open_connection(url, "/v1/rm") as first, open_connection(url, "/v1/rm") as second:
            await first.send_message(register(FIRST))
            await loader.wait_begun()
            await second.send_message(register(SECOND))
        async with open_connection(url, "/v1/rm") as third:
            await third.send_message(register(THIRD))
            await loader.wait_begun(2)
            assert loader.begun == [FIRST, THIRD]
            loader.go.set()
            assert isinstance(JSON.decode_response(await third.get_message()), si.RegisterResourceManagerResponse)


async def test_configurations_keep_their_order_and_few_may_wait(loader: SlowLoader) -> None:
    """The last one wins; one too many is refused without effect on the others."""
    async with daemon_here(FIRST) as (daemon, url), connect(url, rm_id="rm-1") as rm:
        await rm.send(update(SECOND, "0"))
        await loader.wait_begun()
        for number in range(1, WAITING_MAX + 1):
            await rm.send(update(THIRD if number == WAITING_MAX else SECOND, str(number)))
        with pytest.raises(RequestRefused) as refused:
            await rm.request(update(FIRST))
        assert (refused.value.code, refused.value.path) == ("UNAVAILABLE", "config")
        loader.go.set()
        acks = [await anext(rm) for _ in range(WAITING_MAX + 1)]
        assert [ack.id for ack in acks] == [str(number) for number in range(WAITING_MAX + 1)]  # type: ignore[union-attr]
        assert loader.begun == [SECOND] * WAITING_MAX + [THIRD]
        assert sorted(leaves(daemon)) == ["root.a", "root.b", "root.c"]  # b drains


async def test_the_daemon_stops_while_a_configuration_is_read(loader: SlowLoader) -> None:
    """The end of the daemon does not wait for a loader."""
    async with daemon_here(FIRST) as (daemon, url), connect(url, rm_id="rm-1") as rm:
        await rm.send(update(SECOND))
        await loader.wait_begun()
        daemon.stop()
        await daemon.stopped.wait()


async def test_a_peer_is_not_dropped_for_pongs_behind_its_messages() -> None:
    """While a session waits for the configuration of its registration it takes no messages, so a pong may be there unread."""
    async with running_daemon(limits=Limits(ping_s=0.1)) as daemon, open_connection(daemon.url, "/v1/rm") as connection:
        async with daemon.reading:
            register = si.RegisterResourceManagerRequest(rm_id="rm-1", config="good")
            for request in (register, *(structs.replace(node(), id=str(number)) for number in range(5))):
                await connection.send_message(JSON.encode(request).decode())
            await trio.sleep(1)
        acks: list[str] = []
        while len(acks) < 5:
            response = JSON.decode_response(await connection.get_message())
            if isinstance(response, si.Ack):
                acks.append(response.id)


# ---- progress and limits, on a virtual clock


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO):
        yield caplog


@asynccontextmanager
async def reloading_here(monkeypatch: pytest.MonkeyPatch, load_s: float) -> AsyncIterator[Reloading]:
    """Changes of no partitions, each of whose texts takes ``load_s``."""

    async def run_process(*_: object, **__: object) -> None:
        await trio.sleep(load_s)
        raise OSError("it has failed")

    async def refused(_: str) -> None:
        pass

    def replaced(*_: str) -> None:
        pass

    monkeypatch.setattr(config_loader.trio, "run_process", run_process)
    async with trio.open_nursery() as nursery:
        partitions = Partitions(lambda _: None)  # type: ignore[arg-type, return-value]
        made = Reloading(queuefile.load(FIRST), ChangeRow(), partitions, refused, replaced, DaemonRows(None))
        made.run_in(nursery)
        yield made
        nursery.cancel_scope.cancel()


LARGE = FIRST.ljust(100_000)


async def test_progress_is_logged(
    monkeypatch: pytest.MonkeyPatch, records: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    """After 2 s, then every 10 s, with the size; no more when it has ended."""
    async with reloading_here(monkeypatch, 25) as changes:
        with pytest.raises(ProtocolError, match="it has failed"):
            async with changes.reading(LARGE, "", Source("q.yaml")):
                pass
        await trio.sleep(100)
    lines = [record.keys for record in records.records if record.message == "config_loading"]  # type: ignore[attr-defined]
    assert [(line["source"], line["bytes"], line["seconds"]) for line in lines] == [
        ("q.yaml", 100_000, seconds) for seconds in (2, 12, 22)
    ]


async def test_a_load_that_takes_too_long_is_refused(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """The error names the limit, and its code does not make the watcher read the same text again."""
    async with reloading_here(monkeypatch, 10**6) as changes:
        began_s = trio.current_time()
        with pytest.raises(ProtocolError, match=r"found 100000 bytes.*longer than 180 s, expected at most that") as refused:
            async with changes.reading(LARGE, "", Source("q.yaml")):
                pass
        assert trio.current_time() - began_s == config_loader.LOAD_S == 180
    assert (refused.value.code, refused.value.path) == ("CONFIG_REFUSED", "config")
