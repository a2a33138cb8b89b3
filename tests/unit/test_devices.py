"""``sim/devices.py``: which placements have room on no single device of their node."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Allocated, NodeAdded, NodeCapacityChanged, NodeRemoved, Released
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.sim.devices import Devices, DeviceUse

NODE, QUEUE = NodeID("n"), QueuePath("root.q")


def gpus(whole: int) -> dict[str, int]:
    return {"gpu": whole, "gpu-milli": 1000 * whole}


def ask(name: str, resource: Mapping[str, int]) -> Ask:
    return Ask(AllocationKey(name), ApplicationID("a"), dict(resource))


def placed(name: str, resource: Mapping[str, int]) -> Allocated:
    return Allocated(0, ask(name, resource), QUEUE, NODE)


def released(name: str, resource: Mapping[str, int]) -> Released:
    return Released(0, ask(name, resource), QUEUE, NODE, TerminationType.STOPPED_BY_RM, "")


def added(capacity: Mapping[str, int]) -> NodeAdded:
    return NodeAdded(0, NODE, dict(capacity), schedulable=True, attributes={})


def devices_of(*facts: Allocated | Released | NodeAdded | NodeCapacityChanged | NodeRemoved) -> dict[str, DeviceUse]:
    devices = Devices()
    for fact in facts:
        devices.observe(fact)
    return devices.uses()


def test_two_halves_are_no_whole_device() -> None:
    """Each of two devices is half free, so a whole one and a share of 600 have room on the node only."""
    halves = [placed(name, {"gpu-milli": 500}) for name in ("a", "b", "c")]
    found = devices_of(added(gpus(2)), *halves, released("b", {"gpu-milli": 500}), placed("d", {"gpu-milli": 600}))
    assert found == {"gpu": DeviceUse(placed=4, without_device=1)}


def test_a_share_takes_the_fullest_device() -> None:
    """So whole devices are left for those that want them."""
    shares = [placed("a", {"gpu-milli": 700}), placed("b", {"gpu-milli": 400}), placed("c", {"gpu-milli": 300})]
    assert devices_of(added(gpus(4)), *shares, placed("d", gpus(2))) == {"gpu": DeviceUse(4, 0)}


def test_a_node_that_gets_smaller_loses_its_last_devices() -> None:
    """Allocations on the other devices stay there."""
    smaller, gone = NodeCapacityChanged(0, NODE, gpus(1)), NodeRemoved(0, NODE)
    found = devices_of(added(gpus(2)), placed("a", gpus(2)), smaller, released("a", gpus(2)), placed("b", gpus(1)), gone)
    assert found == {"gpu": DeviceUse(2, 0)}


@pytest.mark.parametrize("capacity", [{"gpu": 2}, {"gpu-milli": 2000}, {"gpu": 2, "gpu-milli": 1999}, gpus(2**50)])
def test_a_node_without_single_devices(capacity: dict[str, int]) -> None:
    """The two amounts do not agree, or there are too many."""
    assert devices_of(added(capacity), placed("a", {"gpu-milli": 500})) == {}


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([{"gpu-milli": 300}, {"gpu-milli": 700}, gpus(1), gpus(2)]))))
def test_all_devices_are_free_in_the_end(changes: list[tuple[int, dict[str, int]]]) -> None:
    """Whatever is placed and released, as many devices as there were can be had when nothing runs."""
    devices, running = Devices(), dict[int, dict[str, int]]()
    devices.observe(added(gpus(3)))
    for number, resource in changes:
        if number in running:
            devices.observe(released(str(number), running.pop(number)))
        else:
            devices.observe(placed(str(number), resource))
            running[number] = resource
    for number, resource in running.items():
        devices.observe(released(str(number), resource))
    before = devices.uses().get("gpu", DeviceUse(0, 0))
    devices.observe(placed("whole", gpus(3)))
    assert devices.uses()["gpu"] == DeviceUse(before.placed + 1, before.without_device)
