"""``bench.adapting``: measurements end by themselves and give what they say. Small sizes; nothing here is about speed."""

import pytest
import trio

from bench import adapting


async def test_a_measurement_of_the_adapter_gives_its_samples() -> None:
    """A small one, with an API server, a daemon, an adapter and the client alone; the others differ in what happens there."""
    with trio.fail_after(60):
        samples = await adapting.heartbeats(adapting.Fleet(nodes=2, pods=1, rounds=1, beats=3))
    assert set(samples) == {"ratio", "bare_us", "cpu_us", "decode_us"}
    assert all(value > 0 for values in samples.values() for value in values)


@pytest.mark.parametrize("classes", [1, 40])
async def test_a_node_that_changes_is_answered_twice_for_each_class(classes: int) -> None:
    """One of 2,000 nodes changes, and no other is answered about; of very many classes only those that may run there are told."""
    samples = await adapting.answer(adapting.Answering(nodes=2_000, classes=(classes,)))
    assert samples["ratio"][0] <= 2
