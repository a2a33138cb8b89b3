"""``bench.adapting``: each measurement ends by itself and gives what it says. Small sizes; nothing here is about speed."""

import pytest
import trio

from bench import adapting
from bench.measures import Samples


async def test_measurements_of_the_adapter_give_their_samples() -> None:
    """All at the same time, each with its own API server, daemons and adapters."""
    fleet = adapting.Fleet(nodes=2, pods=6, rounds=1, beats=3)
    found: dict[str, Samples] = {}

    async def measure(name: str) -> None:
        found[name] = await {
            "bind": lambda: adapting.bind(adapting.Backlog(nodes=2, pods=4, rounds=1)),
            "conditions": lambda: adapting.bind_beside_conditions(adapting.Telling(nodes=2, pods=2, waiting=600, rounds=1)),
            "report": lambda: adapting.report(fleet),
            "heartbeats": lambda: adapting.heartbeats(fleet),
            "grow": lambda: adapting.grow(adapting.Stall(nodes=2, pods=6, waves=1)),
        }[name]()

    with trio.fail_after(180):
        async with trio.open_nursery() as nursery:
            for name in ("bind", "conditions", "report", "heartbeats", "grow"):
                nursery.start_soon(measure, name)
    names = {name: set(samples) for name, samples in found.items()}
    assert names == {
        "bind": {"ratio", "told_ratio", "bare_us", "cpu_us", "told_cpu_us", "wall_s"},
        "conditions": {"ratio", "without_ms", "ms"},
        "report": {"ratio", "bare_us", "cpu_us", "decode_us", "wall_s"},
        "heartbeats": {"ratio", "bare_us", "cpu_us", "decode_us"},
        "grow": {"grown_mib"},
    }
    del found["grow"]
    assert all(value > 0 for samples in found.values() for values in samples.values() for value in values)


@pytest.mark.parametrize("classes", [1, 40])
async def test_a_node_that_changes_is_answered_twice_for_each_class(classes: int) -> None:
    """With 2,000 nodes: no other node is answered about. Of very many classes only what may run there is told."""
    samples = await adapting.answer(adapting.Answering(nodes=2_000, classes=(classes,)))
    assert samples["ratio"][0] <= 2
