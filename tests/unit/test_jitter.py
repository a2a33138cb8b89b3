"""``sim/jitter.py``: other arrivals of the same work."""

from typing import Any

import pytest
from generate import generate
from msgspec import structs, to_builtins

from ykactor.sim.jitter import MOST_S, jittered
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si

RESOURCE = {"vcore": "1"}


def ask(key: str, of: str = "", **more: Any) -> si.Allocation:
    return si.Allocation(key, of, resource_per_alloc=RESOURCE, **more)


def scenario(*messages: TimedRequest, until: float = 100) -> Scenario:
    return Scenario("s", "", until, messages=list(messages))


def entries(found: Scenario) -> dict[str, list[str]]:
    """The events of each application, in order; those of none under ""."""
    said: dict[str, list[str]] = {}
    for message in found.messages:
        request = message.request
        if isinstance(request, si.ApplicationRequest):
            for kind in ("new", "records", "remove"):
                for entry in getattr(request, kind):
                    said.setdefault(entry.application_id, []).append(f"{kind} {to_builtins(entry)}")
        elif isinstance(request, si.AllocationRequest):
            for number, entry in enumerate(request.allocations):
                said.setdefault(entry.application_id, []).append(f"{to_builtins(entry)} {message.run_seconds.get(number)}")
            for release in request.releases.allocations_to_release:
                said.setdefault(release.application_id, []).append(f"ends {to_builtins(release)}")
        else:
            said.setdefault("", []).append(f"{message.at} {to_builtins(request)}")
    return said


@pytest.mark.parametrize("seed", range(20))
def test_the_same_work_at_other_times(seed: int) -> None:
    """Each application has the same entries in the same order, up to a second later; all that is of none stays as it is."""
    original = generate(seed, reloads=1)
    found = jittered(original, seed)
    assert entries(found) == entries(original)
    times = [message.at for message in found.messages]
    assert times == sorted(times)
    assert times[-1] <= original.until
    messages = list(found.messages)
    assert messages != list(original.messages)
    assert list(jittered(original, seed).messages) == list(found.messages) == messages
    assert list(jittered(original, seed + 1).messages) != messages


def test_an_application_is_moved_as_a_whole() -> None:
    """Messages of an application keep their distances, also those of operators, and those that others have a part in."""
    apps = [si.AddApplicationRequest(name, "root.a", ugi=si.UserGroupInformation("u")) for name in "ab"]
    found = jittered(
        scenario(
            TimedRequest(1, si.ApplicationRequest(new=apps)),
            TimedRequest(2, si.AllocationRequest(allocations=[ask("a1", "a"), ask("b1", "b"), ask("a2", "a")]), {1: 5, 2: 7}),
            TimedRequest(3, si.CancelAllocation(application_id="a", allocation_key="a2")),
        ),
        1,
    )
    times: dict[str, list[float]] = {"a": [], "b": []}
    for message in found.messages:
        request = message.request
        if isinstance(request, si.ApplicationRequest):
            times[request.new[0].application_id].append(message.at)
        elif isinstance(request, si.AllocationRequest):
            times[request.allocations[0].application_id].append(message.at)
            runs = {request.allocations[number].allocation_key: run for number, run in message.run_seconds.items()}
            assert runs == ({"a2": 7} if request.allocations[0].application_id == "a" else {"b1": 5})
        else:
            times["a"].append(message.at)
    assert [at - times["a"][0] for at in times["a"]] == pytest.approx([0, 1, 2])
    assert [at - times["b"][0] for at in times["b"]] == pytest.approx([0, 1])
    assert 0 <= times["a"][0] - 1 <= MOST_S
    assert times["a"][0] != times["b"][0]


def test_what_is_of_no_application_stays() -> None:
    """Nodes, foreign allocations, and messages without entries."""
    messages = [
        TimedRequest(0, si.NodeRequest(nodes=[si.NodeInfo("n1", "CREATE", schedulable_resource=RESOURCE)])),
        TimedRequest(1, si.AllocationRequest(allocations=[ask("f", node_id="n1", allocation_tags={"foreign": "x"})])),
        TimedRequest(2, si.AllocationRequest()),
        TimedRequest(3, si.ApplicationRequest()),
        TimedRequest(4, si.HoldQueue(queue_name="root.a", held=True)),
    ]
    assert list(jittered(scenario(*messages), 5).messages) == messages


def test_nothing_moves_beyond_the_end() -> None:
    """A message before the end stays before it, and one after it stays behind it."""
    new = si.ApplicationRequest(new=[si.AddApplicationRequest("a", "root.a", ugi=si.UserGroupInformation("u"))])
    late = si.AllocationRequest(allocations=[ask("a1", "a")])
    found = jittered(scenario(TimedRequest(9.9999, new), TimedRequest(12, late), until=10), 3)
    assert [message.at for message in found.messages] == [10, 12]
    assert [type(message.request) for message in found.messages] == [si.ApplicationRequest, si.AllocationRequest]


def test_names_are_those_of_a_partition() -> None:
    """Applications of the same name in two partitions are two; partitions are compared without case."""
    asks = [ask("a1", "a", partition_name=name) for name in ("", "default", "DEFAULT", "gpu")]
    found = jittered(scenario(TimedRequest(1, si.AllocationRequest(allocations=asks))), 2)
    assert sorted(len(structs.asdict(message.request)["allocations"]) for message in found.messages) == [1, 3]
