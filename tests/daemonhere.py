"""A daemon in this process, with real sockets: a test can look into it, and break it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from daemon import LIMIT_S
from memorystore import MemoryStore

from ykactor.actors.clock import Clock
from ykactor.actors.journal import Journal
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.net.doors import Door
from ykactor.surfaces.net.systemd import Notifier
from ykactor.wire import queuefile
from ykactor.wire.history import encode_facts


@asynccontextmanager
async def daemon_here(text: str = "", store: MemoryStore | None = None) -> AsyncIterator[tuple[Daemon, str]]:
    """A daemon with this queue file, and its URL, until the block ends.

    Args:
        store: what its journal is kept in; without it there is none.
    """
    clock = Clock.of_the_system()
    journal = None if store is None else Journal(store, encode_facts, clock.now_ns)
    daemon = Daemon(queuefile.load(text), Settings(), clock, journal=journal)
    async with serving(daemon) as url:
        yield daemon, url


async def apply_config(daemon: Daemon, text: str, if_checksum: str = "") -> str:
    """Put a configuration into force, as an operator does; the checksum in force."""
    async with daemon.reading_config(text, if_checksum) as config:
        return await config.apply()


@asynccontextmanager
async def serving(daemon: Daemon) -> AsyncIterator[str]:
    """Run a daemon on loopback until the block ends, then stop it; its URL. The block fails if it takes very long."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    door = Door.of(listener)
    async with listener:
        with trio.fail_after(LIMIT_S):
            async with trio.open_nursery() as nursery:
                await nursery.start(daemon.run, [door], Notifier(None))
                yield door.url
                daemon.stop()
                await daemon.stopped.wait()
