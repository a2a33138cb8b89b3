"""An API server that shows pods that come and go, but answers no request that writes: what waits for it is bounded."""

import random
from typing import Any

import pytest
import trio
from dialogue import Dialogue
from directapi import DirectApi, process
from fakeserver import FakeServer
from objects import group, node, pod
from seeds import seeds
from test_task_groups import annotations

from ykactor.kubernetes.effects import EVENTS_MAX, NOTE_MAX, Effects, Feedback
from ykactor.kubernetes.lanes import Pace
from ykactor.kubernetes.messages import Event, Ref, Tell
from ykactor.kubernetes.model import Pod
from ykactor.kubernetes.pods import key_of
from ykactor.wire.si import messages as si


def waiting_effects() -> Effects:
    """Effects that nobody carries out."""
    return Effects(
        DirectApi(FakeServer()),
        Pace(200),
        process(),
        Feedback(lambda _: None, lambda _: True),
        lambda: "/apis/scheduling.k8s.io/v1alpha2",
    )


def some_pod(rng: random.Random, number: int) -> Pod:
    more: list[dict[str, Any]] = [
        {},
        {"annotations": annotations(**{"app-id": f"gang-{number}"})},
        {"schedulingGroup": {"podGroupName": "pg"}},
    ]
    return pod(f"p{number}", **rng.choice(more))


def say(dialogue: Dialogue, rng: random.Random, found: Pod) -> None:
    """The daemon says something about a pod."""
    key, application = key_of(found), f"gang-{found.metadata.name[1:]}"
    match rng.randrange(5):
        case 0:
            dialogue.place(found, "n1")
        case 1:
            entry = si.SchedulingStateEntry(allocation_key=key, application_id="a", state="FAILED", cause="NODES", reason="full")
            dialogue.hear(si.SchedulingStateResponse(entries=[entry]))
        case 2:
            dialogue.release(found, "PREEMPTED_BY_SCHEDULER")
        case 3:
            rejected = si.RejectedApplication(application_id=application, reason="no queue")
            dialogue.hear(si.ApplicationResponse(rejected=[rejected]))
        case 4:
            dialogue.updated(application, "Failed")


@pytest.mark.parametrize("seed", seeds(20))
async def test_nothing_but_events_waits_for_what_is_gone(seed: int) -> None:
    """Binds, deletes, placeholders, failures and conditions of pods and PodGroups go with them."""
    rng, effects = random.Random(seed), waiting_effects()
    dialogue = Dialogue(node("n1", cpu="1000"), group("pg", 3))
    dialogue.register()
    most = 0
    for number in range(30):
        found = some_pod(rng, number)
        dialogue.see(found)
        for _ in range(rng.randrange(4)):
            say(dialogue, rng, found)
        dialogue.now_s += 1
        most = max(most, _put(dialogue, effects))
        if rng.random() < 0.8:
            dialogue.lose(found)
    for record in list(dialogue.state.book.pods.values()):
        dialogue.lose(record.pod)
    dialogue.lose(group("pg", 3))
    assert _put(dialogue, effects) == 0 < most


def _put(dialogue: Dialogue, effects: Effects) -> int:
    """Hand over the effects; returns how many wait that are no Events."""
    for effect in dialogue.effects:
        if not isinstance(effect, Tell):
            effects.put(effect)
    dialogue.effects.clear()
    return sum(effects.waiting().values()) - len(effects.events)


async def test_events_that_wait_are_bounded_in_number_and_size() -> None:
    effects = waiting_effects()
    for number in range(EVENTS_MAX + 10):
        effects.put(Event("Pod", Ref("team", f"p{number}"), "uid", "Preempted", "Preempting", "n" * 2000))
    assert len(effects.events) == EVENTS_MAX
    assert effects.events.dropped == 10
    assert all(len(event.note) == NOTE_MAX for event, *_ in effects.events._items.values())


# ---- other work yields


async def test_other_work_waits_for_urgent_requests_and_for_input(autojump_clock: trio.abc.Clock) -> None:
    """However little of the processor there is; but it goes on after a while, also if there is never a lull."""
    pace, began_s = Pace(200), trio.current_time()
    with pace.urgent():
        async with pace.spare():
            pass
    assert 0.04 < trio.current_time() - began_s < 1
    order = list[str]()

    async def tell() -> None:
        async with pace.spare():
            order.append("told")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tell)
        for _ in range(20):
            pace.note_input()
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
        order.append("read")
    assert order == ["read", "told"]
