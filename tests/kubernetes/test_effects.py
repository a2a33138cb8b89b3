"""The requests of the leading adapter: their order, their number, and what is tried again, on a simulated clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
import trio
from directapi import DirectApi, process
from fakehttp import Body, Refused, Request
from fakeserver import FakeServer
from trio.abc import Clock
from volumecontroller import new_claim, selected

from ykactor.kubernetes.api import ApiError
from ykactor.kubernetes.effects import Effects, Feedback
from ykactor.kubernetes.lanes import Lane, Pace
from ykactor.kubernetes.leader import DURATION_S, Leadership
from ykactor.kubernetes.messages import (
    Bind,
    BindEnded,
    BindOutcome,
    CreateEnded,
    CreatePlaceholder,
    DeletePod,
    Event,
    FailPod,
    Nominate,
    NotWritten,
    Ref,
    SelectNode,
    SetCondition,
    SetGroupCondition,
    Stimulus,
    Written,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Playing:
    """Effects that are carried out on a fake server.

    Attributes:
        server: without sockets.
        told: the results.
        faults: raised by the requests to come, by verb and resource such as ``POST binding``; None is no fault.
        seen: the requests with the seconds when they came.
        wanted: False if nothing is wanted any more.
        pace: requests per second of what is not urgent.
    """

    def __init__(self) -> None:
        self.server = FakeServer()
        self.server.faults = self._fault
        self.told: list[Stimulus] = []
        self.faults: dict[str, list[Exception | None]] = {}
        self.seen: list[tuple[str, float]] = []
        self.wanted = True
        self.pace = Pace(200)
        self.began_s = trio.current_time()
        self.effects = Effects(
            DirectApi(self.server),
            self.pace,
            process(),
            Feedback(self.told.append, lambda _: self.wanted),
            lambda: "/apis/scheduling.k8s.io/v1alpha2",
        )
        self.server.store.create("nodes", "", {"metadata": {"name": "n1"}})

    async def _fault(self, request: Request) -> None:
        what = f"{request.method} {request.subresource or request.resource}"
        self.seen.append((what, trio.current_time() - self.began_s))
        waiting = self.faults.get(what, [])
        fault = waiting.pop(0) if waiting else None
        if fault is not None:
            raise fault

    def pod(self, name: str = "p", **spec: Any) -> Body:
        containers = [{"name": "c", "image": "example"}]
        body = {"metadata": {"name": name}, "spec": {"schedulerName": "ykactor", "containers": containers, **spec}}
        return self.server.store.create("pods", "team", body)

    def now(self, name: str = "p") -> Body:
        return self.server.store.get("pods", "team", name)

    def bind(self, pod: Body, node: str = "n1") -> None:
        meta = pod["metadata"]
        self.effects.put(Bind(f"key-{meta['name']}", Ref("team", meta["name"]), meta["uid"], node))

    def outcome(self) -> tuple[BindOutcome, str]:
        (ended,) = self.told
        assert isinstance(ended, BindEnded)
        return ended.outcome, ended.node

    def count(self, what: str) -> int:
        return sum(each == what for each, _ in self.seen)

    def notes(self, name: str = "p") -> list[tuple[str, int]]:
        """The Events about a pod with their counts."""
        events = [each for each in self.server.store.all("events", "") if each["regarding"]["name"] == name]
        return sorted((each["note"], each.get("series", {"count": 1})["count"]) for each in events)


class Taking:
    """A server that takes its time.

    Attributes:
        times: when each request has begun and ended, by verb and resource.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.times = defaultdict[str, list[tuple[float, float]]](list)

    async def __call__(self, request: Request) -> None:
        began_s = trio.current_time()
        await trio.sleep(self._seconds)
        self.times[f"{request.method} {request.subresource or request.resource}"].append((began_s, trio.current_time()))


@pytest.fixture
async def play() -> AsyncIterator[Playing]:
    """Effects are carried out during the test."""
    play = Playing()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(play.effects.run, Leadership(1))
        yield play
        nursery.cancel_scope.cancel()


class NoAnswer(ApiError):
    """The connection was lost."""

    def __init__(self) -> None:
        super().__init__(0, "ReadTimeout", "timed out")


def busy() -> Refused:
    """The server has too much to do: the answer is no JSON."""
    return Refused(429, "TooManyRequests", "too many requests", "Too many requests, please try again later.\n")


def failing(status: int) -> Refused:
    return Refused(status, "InternalError", "no")


# ---- binds


async def test_a_pod_is_bound(play: Playing, autojump_clock: Clock) -> None:
    play.bind(play.pod())
    await trio.sleep(1)
    assert play.outcome() == (BindOutcome.DONE, "n1")
    assert play.now()["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize(
    ("fault", "pause_s"), [(busy(), 4.0), (failing(500), 0.7), (failing(503), 0.7), (failing(403), 0.7), (failing(401), 0.7)]
)
async def test_a_refused_bind_is_tried_five_times_and_then_given_up(
    play: Playing, autojump_clock: Clock, fault: Refused, pause_s: float
) -> None:
    """After pauses that grow, and not before the server wants it; it is not bound, so the daemon may place it elsewhere."""
    play.faults["POST binding"] = [fault] * 100
    play.bind(play.pod())
    await trio.sleep(60)
    assert play.outcome()[0] is BindOutcome.FAILED
    times = [at_s for what, at_s in play.seen if what == "POST binding"]
    assert len(times) == 5
    assert times[-1] >= pause_s


async def test_a_bind_without_an_answer_is_tried_until_there_is_one(play: Playing, autojump_clock: Clock) -> None:
    """A bind without an answer may have had its effect, and another pod would be placed in its room."""
    pod = play.pod()
    play.faults["POST binding"] = [NoAnswer()] * 12
    play.bind(pod)
    await trio.sleep(30)
    assert not play.told
    play.server.store.bind("team", "p", {"metadata": {"name": "p"}, "target": {"name": "n1"}})
    await trio.sleep(300)
    assert play.outcome() == (BindOutcome.TAKEN, "n1")


@pytest.mark.parametrize("unanswered", [NoAnswer(), failing(504)], ids=["no answer", "too late"])
@pytest.mark.parametrize("refusal", [failing(403), busy(), Refused(409, "Conflict", "strange")], ids=["403", "429", "409"])
async def test_a_bind_that_was_refused_after_one_without_an_answer_is_not_given_up_early(
    play: Playing, autojump_clock: Clock, unanswered: Exception, refusal: Refused
) -> None:
    """The first attempt may have its effect later: another pod would be placed in its room."""
    pod = play.pod()
    play.faults["POST binding"] = [unanswered, *[refusal] * 100]
    play.bind(pod)
    await trio.sleep(DURATION_S - 1)
    assert not play.told
    play.server.store.bind("team", "p", {"metadata": {"name": "p"}, "target": {"name": "n1"}})
    await trio.sleep(60)
    assert play.outcome() == (BindOutcome.TAKEN, "n1")


@pytest.mark.parametrize("status", [500, 504])
async def test_a_bind_that_failed_with_its_effect_is_found_out(play: Playing, autojump_clock: Clock, status: int) -> None:
    """The pod is read before it is given up; what cannot be read is tried again."""
    pod = play.pod()
    play.server.store.bind("team", "p", {"metadata": {"name": "p"}, "target": {"name": "n1"}})
    play.faults["POST binding"] = [failing(status)] * 100
    play.faults["GET pods"] = [failing(500), failing(503)]
    play.bind(pod)
    await trio.sleep(60)
    assert play.outcome() == (BindOutcome.TAKEN, "n1")


def end(play: Playing) -> None:
    play.now()["status"]["phase"] = "Failed"


def delete(play: Playing) -> None:
    play.now()["metadata"]["finalizers"] = ["example/keep"]
    play.server.store.delete("pods", play.now(), {})


def replace(play: Playing) -> None:
    play.server.store.remove("pods", play.now())
    play.pod()


def remove(play: Playing) -> None:
    play.server.store.remove("pods", play.now())


def gate(play: Playing) -> None:
    play.now()["spec"]["schedulingGates"] = [{"name": "g"}]


def rival(play: Playing) -> None:
    play.server.store.bind("team", "p", {"metadata": {"name": "p"}, "target": {"name": "n2"}})


CONFLICTS = [
    (delete, BindOutcome.GONE),
    (replace, BindOutcome.GONE),
    (remove, BindOutcome.GONE),
    (gate, BindOutcome.GATED),
    (rival, BindOutcome.TAKEN),
]


@pytest.mark.parametrize("text", ["", "another text"], ids=["text of the server", "another text"])
@pytest.mark.parametrize(("happens", "outcome"), CONFLICTS, ids=[each.__name__ for each, _ in CONFLICTS])
async def test_conflicts_are_told_apart(
    play: Playing, autojump_clock: Clock, happens: Any, outcome: BindOutcome, text: str
) -> None:
    """All have the reason Conflict: the message says which one it is, and the pod itself if the message is not known."""
    pod = play.pod()
    happens(play)
    if text:
        play.faults["POST binding"] = [Refused(409, "Conflict", text)] * 100
    play.bind(pod)
    await trio.sleep(60)
    assert play.outcome() == (outcome, "n2" if outcome is BindOutcome.TAKEN else "")
    assert play.count("POST binding") == 1


async def test_a_conflict_whose_reason_has_gone_is_tried_again(play: Playing, autojump_clock: Clock) -> None:
    """The gates were opened just now; a conflict that stays is given up."""
    pod = play.pod()
    play.faults["POST binding"] = [Refused(409, "Conflict", "pod p has non-empty .spec.schedulingGates")]
    play.bind(pod)
    await trio.sleep(10)
    assert play.outcome() == (BindOutcome.DONE, "n1")
    play.told.clear()
    play.faults["POST binding"] = [Refused(409, "Conflict", "strange")] * 100
    play.bind(play.pod("q"))
    await trio.sleep(60)
    assert play.outcome()[0] is BindOutcome.FAILED


async def test_a_pod_that_has_ended_is_not_bound(play: Playing, autojump_clock: Clock) -> None:
    """The server would do it. It has ended while its bind had to wait."""
    pod = play.pod()
    play.faults["POST binding"] = [busy()] * 3
    play.bind(pod)
    await trio.sleep(0.1)
    end(play)
    play.wanted = False
    await trio.sleep(60)
    assert play.outcome()[0] is BindOutcome.GONE
    assert play.count("POST binding") == 1
    assert "nodeName" not in play.now()["spec"]


async def test_binds_that_wait_do_not_keep_others_waiting(play: Playing, autojump_clock: Clock) -> None:
    """However many binds are refused."""
    pods = [play.pod(f"p{number}") for number in range(101)]
    play.faults["POST binding"] = [busy()] * 100
    for pod in pods:
        play.bind(pod)
    await trio.sleep(0.1)
    assert sum("nodeName" in each["spec"] for each in play.server.store.all("pods", "team")) == 1


# ---- lanes and pace


async def test_binds_never_wait_for_conditions(play: Playing, autojump_clock: Clock) -> None:
    """The adapter writes 200 conditions each second, the newest first, less one for each bind."""
    pods = [play.pod(f"p{number}") for number in range(1000)]
    for pod in pods:
        meta = pod["metadata"]
        play.effects.put(SetCondition(Ref("team", meta["name"]), meta["uid"], meta["resourceVersion"], "Unschedulable", "no"))
    await trio.sleep(1.01)
    last = play.pod("last")
    began_s = trio.current_time() - play.began_s
    for number in range(100):
        play.bind(play.pod(f"b{number}"))
    meta = last["metadata"]
    play.effects.put(SetCondition(Ref("team", "last"), meta["uid"], meta["resourceVersion"], "Unschedulable", "no"))
    await trio.sleep(1)
    binds = [at_s for what, at_s in play.seen if what == "POST binding"]
    assert binds == [began_s] * 100
    written = [at_s - began_s for what, at_s in play.seen if what == "PATCH status" and at_s > began_s]
    assert 90 <= len(written) <= 110
    assert play.now("last")["status"]["conditions"][0]["message"] == "no"
    assert "conditions" not in play.now("p400")["status"]


async def test_conditions_take_a_quarter_of_the_time_beside_binds(play: Playing, autojump_clock: Clock) -> None:
    """One at a time while binds come: a process with much to do gets its share of a busy machine late. Then several at a time."""
    play.server.faults = taking = Taking(0.005)
    for number in range(1000):
        meta = play.pod(f"p{number}")["metadata"]
        play.effects.put(SetCondition(Ref("team", meta["name"]), meta["uid"], meta["resourceVersion"], "Unschedulable", "no"))
    for number in range(100):
        play.bind(play.pod(f"b{number}"))
        await trio.sleep(0.03)
    assert len(taking.times["POST binding"]) == 100
    beside = [times for times in taking.times["PATCH status"] if times[0] > play.began_s + 0.03]
    assert 50 <= len(beside) <= 3 * 0.25 / 0.005  # of three seconds
    assert all(began_s >= ended_s for (_, ended_s), (began_s, _) in pairwise(beside))
    await trio.sleep(2)
    later = [times for times in taking.times["PATCH status"] if times[0] > play.began_s + 4.1]
    assert len(later) >= 150
    assert any(began_s < ended_s for (_, ended_s), (began_s, _) in pairwise(later))


async def test_conditions_are_written_however_many_binds_there_are(play: Playing, autojump_clock: Clock) -> None:
    """A server that is slow, so that binds are open all the time: some conditions are written each second."""
    play.server.faults = taking = Taking(0.5)
    for number in range(100):
        meta = play.pod(f"p{number}")["metadata"]
        play.effects.put(SetCondition(Ref("team", meta["name"]), meta["uid"], meta["resourceVersion"], "Unschedulable", "no"))
        play.bind(play.pod(f"b{number}"))
    await trio.sleep(3)
    assert 80 <= len(taking.times["POST binding"]) < 100  # 16 at a time
    assert len(taking.times["PATCH status"]) >= 10


async def test_the_number_of_requests_may_change(play: Playing, autojump_clock: Clock) -> None:
    """A ConfigMap says another one; it counts at once."""
    for number in range(300):
        meta = play.pod(f"p{number}")["metadata"]
        play.effects.put(SetCondition(Ref("team", meta["name"]), meta["uid"], meta["resourceVersion"], "Unschedulable", "no"))
    play.pace.per_second = 10.0
    await trio.sleep(2)
    assert 28 <= play.count("PATCH status") <= 30  # 10 at once
    play.pace.per_second = 100.0
    await trio.sleep(1)
    assert 110 <= play.count("PATCH status") <= 140


@pytest.mark.parametrize(
    ("message", "status", "reason"), [("1 of 2 pods are there", "False", "Unschedulable"), ("", "True", "Scheduled")]
)
async def test_a_pod_group_says_why_it_waits(
    play: Playing, autojump_clock: Clock, message: str, status: str, reason: str
) -> None:
    """Or that it waits no longer; conditions of others stay."""
    other = {"type": "Other", "status": "True"}
    body = {"metadata": {"name": "pg"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    group = play.server.store.create("podgroups", "team", body)
    play.server.store.patch("podgroups", group, {"status": {"conditions": [other]}}, strategic=True, subresource="status")
    play.effects.put(SetGroupCondition(Ref("team", "pg"), message))
    await trio.sleep(1)
    conditions = {each["type"]: each for each in play.server.store.get("podgroups", "team", "pg")["status"]["conditions"]}
    assert conditions["Other"] == other
    wanted = {"status": status, "reason": reason, "message": message, "lastTransitionTime": "2030-01-01T00:00:00Z"}
    assert conditions["PodGroupScheduled"] == {"type": "PodGroupScheduled", **wanted}


async def test_a_condition_is_not_written_on_a_pod_that_was_bound_meanwhile(play: Playing, autojump_clock: Clock) -> None:
    """Else it would say that it is not scheduled."""
    pod = play.pod()
    meta = pod["metadata"]
    play.faults["PATCH status"] = [busy()]
    play.effects.put(SetCondition(Ref("team", "p"), meta["uid"], meta["resourceVersion"], "Unschedulable", "no"))
    await trio.sleep(0.1)
    play.bind(pod)
    await trio.sleep(30)
    assert [each["status"] for each in play.now()["status"]["conditions"]] == ["True"]


@pytest.mark.parametrize("fault", [busy(), failing(500), failing(403), NoAnswer()])
async def test_conditions_are_tried_until_written_and_events_some_times(
    play: Playing, autojump_clock: Clock, fault: Exception
) -> None:
    """The daemon does not repeat what it has said once; and a namespace that ends refuses Events for ever."""
    meta = play.pod()["metadata"]
    play.faults["PATCH status"] = [fault] * 12
    play.faults["POST events"] = [fault] * 3
    play.effects.put(SetCondition(Ref("team", "p"), meta["uid"], meta["resourceVersion"], "Unschedulable", "no"))
    play.effects.put(event("why"))
    await trio.sleep(60)
    assert play.notes() == [("why", 1)]
    await trio.sleep(300)
    assert play.now()["status"]["conditions"][0]["message"] == "no"
    play.faults["POST events"] = [fault] * 100
    play.effects.put(event("other"))
    await trio.sleep(300)
    assert len(play.faults["POST events"]) == 95


# ---- Events


def event(note: str, reason: str = "FailedScheduling", name: str = "p") -> Event:
    return Event("Pod", Ref("team", name), f"uid-{name}", reason, "Scheduling", note)


async def test_why_a_pod_waits_is_an_event_in_15_seconds(play: Playing, autojump_clock: Clock) -> None:
    """The last reason is not lost; what is said again is counted."""
    for note in ("a", "b", "c"):
        play.effects.put(event(note))
        await trio.sleep(1)
    assert play.notes() == [("a", 1)]
    await trio.sleep(15)
    assert play.notes() == [("a", 1), ("c", 1)]
    for _ in range(2):
        await trio.sleep(15)
        play.effects.put(event("c"))
    await trio.sleep(15)
    assert play.notes() == [("a", 1), ("c", 3)]


async def test_other_events_are_all_written(play: Playing, autojump_clock: Clock) -> None:
    """Two of one reason with different notes are two, and what was said before is counted."""
    for note in ("a", "b", "a"):
        play.effects.put(event(note, "WrongAnnotation"))
        play.effects.put(event("pod p", "Scheduled"))
        await trio.sleep(0.1)
    assert play.notes() == [("a", 2), ("b", 1), ("pod p", 3)]


async def test_an_event_that_the_server_has_forgotten_is_written_again(play: Playing, autojump_clock: Clock) -> None:
    play.effects.put(event("a", "WrongAnnotation"))
    await trio.sleep(1)
    (written,) = play.server.store.all("events", "")
    play.server.store.remove("events", written)
    play.effects.put(event("a", "WrongAnnotation"))
    await trio.sleep(1)
    assert play.notes() == [("a", 1)]


@pytest.mark.parametrize(
    ("kind", "namespace", "version"),
    [
        ("Pod", "team", "v1"),
        ("Node", "", "v1"),
        ("PodGroup", "team", "scheduling.k8s.io/v1alpha2"),
        ("PodDisruptionBudget", "team", "policy/v1"),
        ("PriorityClass", "", "scheduling.k8s.io/v1"),
    ],
)
async def test_events_name_their_object(play: Playing, autojump_clock: Clock, kind: str, namespace: str, version: str) -> None:
    """Events about objects of the cluster are in namespace default, as 1.20 requires."""
    long = f"{'x' * 199}.y"
    play.effects.put(Event(kind, Ref(namespace, long), "uid", "Unreadable", "Reading", "n" * 2000))
    await trio.sleep(1)
    (written,) = play.server.store.all("events", namespace or "default")
    regarding = {"apiVersion": version, "kind": kind, "name": long, "namespace": namespace or "default", "uid": "uid"}
    assert written["regarding"] == regarding
    assert written["reportingInstance"] == "one"
    assert len(written["note"]) == 1000
    assert written["metadata"]["name"].startswith(f"{'x' * 199}.")


# ---- deletes and creations


async def test_a_pod_is_deleted_only_if_it_is_the_same(play: Playing, autojump_clock: Clock) -> None:
    """Whatever the server says meanwhile, until it is done."""
    pod = play.pod()
    play.faults["DELETE pods"] = [busy(), failing(500), failing(403), NoAnswer()] * 3
    play.effects.put(DeletePod(Ref("team", "p"), pod["metadata"]["uid"]))
    await trio.sleep(0.1)
    assert play.count("DELETE pods") == 1
    await trio.sleep(600)
    assert not play.server.store.all("pods", "team")
    play.effects.put(DeletePod(Ref("team", "p"), pod["metadata"]["uid"]))
    play.pod()
    await trio.sleep(10)
    assert play.now()
    assert len(play.effects.deletes) == 0


async def test_a_placeholder_that_is_refused_is_told_of_and_tried_on(play: Playing, autojump_clock: Clock) -> None:
    """A quota or a policy refuses it with 403; others are created meanwhile."""
    body = {"metadata": {"name": "tg"}, "spec": {"containers": [{"name": "c", "image": "pause"}]}}
    play.faults["POST pods"] = [failing(403)] * 7
    play.effects.put(CreatePlaceholder("app", Ref("team", "tg"), body))
    await trio.sleep(10)
    assert play.told == [CreateEnded("app", Ref("team", "tg"), "403 InternalError: no")]
    await trio.sleep(100)
    assert play.told[1:] == [CreateEnded("app", Ref("team", "tg"))]
    assert play.now("tg")


async def test_a_placeholder_that_is_refused_for_ever_is_told_of_at_once(play: Playing, autojump_clock: Clock) -> None:
    """The placeholder is invalid, and not tried again."""
    body = {"metadata": {"name": "TG"}, "spec": {"containers": [{"name": "c", "image": "pause"}]}}
    play.effects.put(CreatePlaceholder("app", Ref("team", "TG"), body))
    await trio.sleep(60)
    (ended,) = play.told
    assert isinstance(ended, CreateEnded)
    assert ended.is_final
    assert play.count("POST pods") == 1


async def test_a_conflict_about_a_resource_quota_is_no_placeholder(play: Playing, autojump_clock: Clock) -> None:
    """Another pod was counted at the same moment. Only a pod of this name that exists is as good as one that was created."""
    text = 'Operation cannot be fulfilled on resourcequotas "q": the object has been modified'
    play.faults["POST pods"] = [Refused(409, "Conflict", text)]
    body = {"metadata": {"name": "tg"}, "spec": {"containers": [{"name": "c", "image": "pause"}]}}
    play.effects.put(CreatePlaceholder("app", Ref("team", "tg"), body))
    await trio.sleep(10)
    assert play.now("tg")
    play.effects.put(CreatePlaceholder("app", Ref("team", "tg"), body))
    await trio.sleep(10)
    assert play.told == [CreateEnded("app", Ref("team", "tg"))] * 2


async def test_what_is_not_wanted_any_more_is_not_tried_on(play: Playing, autojump_clock: Clock) -> None:
    pod = play.pod()
    play.faults["POST pods"] = play.faults["PATCH status"] = [failing(403)] * 1000
    play.effects.put(CreatePlaceholder("app", Ref("team", "tg"), {}))
    play.effects.put(FailPod(Ref("team", "p"), pod["metadata"]["uid"], "ApplicationRejected", "no queue"))
    await trio.sleep(100)
    assert len(play.effects.creations) == 2
    play.wanted = False
    await trio.sleep(100)
    assert len(play.effects.creations) == 0


async def test_a_pod_is_failed_with_its_reason(play: Playing, autojump_clock: Clock) -> None:
    pod = play.pod()
    play.effects.put(FailPod(Ref("team", "p"), pod["metadata"]["uid"], "ApplicationRejected", "no queue"))
    await trio.sleep(1)
    status = play.now()["status"]
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "ApplicationRejected", "no queue")


# ---- volumes


def claim_of(play: Playing) -> Body:
    return play.server.store.get("persistentvolumeclaims", "team", "data")


def select(play: Playing, node: str) -> None:
    play.effects.put(SelectNode(Ref("team", "data"), claim_of(play)["metadata"]["uid"], node))


async def test_the_node_of_a_claim_is_written_and_taken_off(play: Playing, autojump_clock: Clock) -> None:
    """The writes have this order, whatever the server answers in between."""
    new_claim(play.server.store, "data")
    play.faults["PATCH persistentvolumeclaims"] = [busy(), NoAnswer(), None]
    select(play, "n1")
    await trio.sleep(10)
    assert selected(claim_of(play)) == "n1"
    select(play, "n2")
    select(play, "")
    await trio.sleep(10)
    assert selected(claim_of(play)) == ""
    assert play.told == []


@pytest.mark.parametrize(("fault", "attempts"), [(failing(500), 5), (failing(403), 5), (failing(422), 1), (NoAnswer(), 5)])
async def test_a_node_that_cannot_be_written_is_told_of(
    play: Playing, autojump_clock: Clock, fault: Refused, attempts: int
) -> None:
    """The pod would wait for ever."""
    new_claim(play.server.store, "data")
    play.faults["PATCH persistentvolumeclaims"] = [fault] * 100
    select(play, "n1")
    await trio.sleep(100)
    (failed,) = play.told
    assert isinstance(failed, NotWritten)
    assert isinstance(failed.effect, SelectNode)
    assert (failed.effect.claim, failed.effect.node) == (Ref("team", "data"), "n1")
    assert play.count("PATCH persistentvolumeclaims") == attempts


async def test_a_claim_of_the_same_name_is_left_alone(play: Playing, autojump_clock: Clock) -> None:
    new_claim(play.server.store, "data")
    play.effects.put(SelectNode(Ref("team", "data"), "another", "n1"))
    await trio.sleep(1)
    assert selected(claim_of(play)) == ""
    assert [type(each) for each in play.told] == [NotWritten]


WRITES = [
    SetCondition(Ref("team", "p"), "another", "", "Unschedulable", "no"),
    SetGroupCondition(Ref("team", "gone"), "no"),
    Nominate(Ref("team", "p"), "another", "n1"),
    SelectNode(Ref("team", "data"), "another", "n1"),
]


@pytest.mark.parametrize("write", WRITES, ids=[type(each).__name__ for each in WRITES])
async def test_what_is_refused_for_ever_is_told(play: Playing, autojump_clock: Clock, write: Written) -> None:
    """A refused write does not count as written."""
    play.pod()
    new_claim(play.server.store, "data")
    play.effects.put(write)
    await trio.sleep(10)
    assert [each.effect for each in play.told if isinstance(each, NotWritten)] == [write]


async def test_a_pod_is_nominated(play: Playing, autojump_clock: Clock) -> None:
    meta = play.pod()["metadata"]
    for node in ("n1", ""):
        play.effects.put(Nominate(Ref("team", "p"), meta["uid"], node))
        await trio.sleep(1)
        assert play.now()["status"].get("nominatedNodeName", "") == node


# ---- a lane alone


async def test_items_of_one_key_are_carried_out_one_after_the_other(autojump_clock: Clock) -> None:
    """Else an older one could overwrite a newer one; others go on meanwhile."""
    done: list[tuple[str, float]] = []

    async def carry_out(item: str, attempts: int) -> None:
        await trio.sleep(1)
        done.append((item, trio.current_time() - began_s))

    lane = Lane[str](carry_out)
    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(lane.work)
        for key, item in (("a", "a1"), ("a", "a2"), ("b", "b1")):
            await trio.sleep(0.1)
            lane.put(key, item)
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert [(item, round(at_s, 3)) for item, at_s in done] == [("a1", 1.1), ("b1", 1.3), ("a2", 2.1)]


async def test_a_newer_item_takes_the_place_of_one_that_waits_to_be_tried_again(autojump_clock: Clock) -> None:
    """The newer item is tried at once, with all its attempts."""
    tried: list[tuple[str, int]] = []

    async def carry_out(item: str, attempts: int) -> float | None:
        tried.append((item, attempts))
        return 10.0 if item == "old" else None

    lane = Lane[str](carry_out, size=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lane.work)
        lane.put("a", "old")
        await trio.sleep(11)
        lane.put("a", "new")
        await trio.sleep(60)
        assert len(lane) == lane.dropped == 0
        nursery.cancel_scope.cancel()
    assert tried == [("old", 0), ("old", 1), ("new", 0)]
