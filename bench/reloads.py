"""Thousands of queues are configured while scheduling continues: the daemon's own code path, without its sockets."""

from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

import trio

from bench.measures import Samples, Stopwatch, TurnWatch
from bench.workloads import ManyQueues
from ykactor.actors.clock import Clock
from ykactor.actors.commands import Intake
from ykactor.actors.pauses import settle_memory
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.net.doors import Door
from ykactor.surfaces.net.systemd import Notifier
from ykactor.wire import queuefile
from ykactor.wire.si import requests

Watch = TypeVar("Watch", bound=trio.abc.Instrument)

_DEFAULT = PartitionName("default")


async def reload_queues(queues: ManyQueues) -> Samples:
    """Change from one queue to thousands (``load_s``), then change the max of each (``reload_s``), while asks arrive.

    ``max_ms`` is the longest time in which the event loop did not check its sockets, ``placed`` the number of asks placed during
    both changes.
    """
    stopwatch, load_s, reload_s, placed = await _apply(queues, Stopwatch)
    return {"load_s": [load_s], "reload_s": [reload_s], "max_ms": [max(stopwatch.turns_ms)], "placed": [float(placed)]}


async def hold(queues: ManyQueues) -> Samples:
    """The same in CPU time: ``max_ms``."""
    watch, *_ = await _apply(queues, TurnWatch)
    return {"max_ms": [max(watch.turns_ms)]}


async def _apply(queues: ManyQueues, make: Callable[[], Watch]) -> tuple[Watch, float, float, int]:
    """An instrument that ran during both changes, their seconds, and the asks placed meanwhile."""
    daemon = Daemon(queuefile.load(queues.small()), Settings(), Clock.of_the_system())
    async with trio.open_nursery() as nursery:
        doors = [Door.of(listener) for listener in await trio.open_tcp_listeners(0, host="127.0.0.1")]
        await nursery.start(daemon.run, doors, Notifier(None))
        for request in queues.setup():
            await _submit(daemon, request)
        nursery.start_soon(_keep_asking, daemon, queues)
        await trio.sleep(0.2)
        settle_memory()
        texts = [queues.config(max_vcore) for max_vcore in (10, 20)]
        instrument = make()
        trio.lowlevel.add_instrument(instrument)
        placed_before = _placed(daemon)
        durations_s = []
        for text in texts:
            began_s = perf_counter()
            async with daemon.reading_config(text) as config:
                await config.apply()
            durations_s.append(perf_counter() - began_s)
        trio.lowlevel.remove_instrument(instrument)
        placed = _placed(daemon) - placed_before
        nursery.cancel_scope.cancel()
    load_s, reload_s = durations_s
    return instrument, load_s, reload_s, placed


async def _keep_asking(daemon: Daemon, queues: ManyQueues) -> None:
    """Ten asks every 10 ms."""
    number = 0
    while True:
        await _submit(daemon, queues.asks(number, 10))
        number += 10
        await trio.sleep(0.01)


async def _submit(daemon: Daemon, request: requests.PartitionRequest) -> None:
    for submissions in requests.submissions(request).values():
        await daemon.partitions[_DEFAULT].put(Intake(submissions))


def _placed(daemon: Daemon) -> int:
    return sum(len(node.allocations) for node in daemon.registry(_DEFAULT).nodes.values())
