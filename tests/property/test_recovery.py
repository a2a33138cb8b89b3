"""A resource manager that loses its session, registers afresh and reports its cluster in any order (SC-144).

Before, a history as in ``test_gangs``, with answers that come late, twice, otherwise or never, or one as in ``test_scheduling``.
Afterwards the resource manager goes by what it is told and nothing else; in the end its books and the scheduler's must agree.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from checked import World
from histories import draw_history
from msgspec import structs
from seeds import seeds
from test_gangs import Session, live
from world import configure, foreign, queue, reset, tree

from ykactor.core.inspection.invariants import violations
from ykactor.core.inspection.snapshot import partition_state
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.kinds import NodeAction, TerminationType
from ykactor.core.messages.submissions import AddApplication, ReleaseAllocations, Submission, UpdateNode
from ykactor.core.values.parts import finished
from ykactor.core.values.resources import pruned
from ykactor.sim.direct import DirectPartition
from ykactor.wire.si import messages as si
from ykactor.wire.si.responses import responses

S_NS = 10**9
#: Application and key.
Task = tuple[str, str]
FORCED = {"application.create.force": "true"}


class Books:
    """A resource manager's knowledge of its cluster: from itself, and from the messages that it gets.

    Attributes:
        to_say: what has to be said still; refused entries come back here.
        runs: every task that runs, with its node and size.
        waits: what was asked for and neither placed nor given up.
        told: tasks that the scheduler has said to run.
        owed: releases that the scheduler waits for.
        queues: of the applications that live.
        ended: applications that have come to their end.
        refused: tasks that came too early, or of applications that do not live.
    """

    def __init__(self) -> None:
        self.to_say: list[Submission] = []
        self.runs: dict[Task, tuple[str, dict[str, int]]] = {}
        self.waits: dict[Task, Ask] = {}
        self.told: set[Task] = set()
        self.owed: list[ReleaseAllocations] = []
        self.queues: dict[str, str] = {}
        self.ended: set[str] = set()
        self.refused: set[Task] = set()
        self._said: dict[Task, Submission] = {}

    def say(self, submission: Submission) -> Submission:
        """Remember what is said."""
        if isinstance(submission, Ask):
            task = submission.application_id, submission.allocation_key
            self._said[task] = submission
            if submission.node_id is not None:
                self.runs[task] = submission.node_id, dict(submission.resource)
            elif task not in self.runs:
                self.waits[task] = submission
        elif isinstance(submission, ReleaseAllocations):
            task = submission.application_id, submission.allocation_key or ""
            self.runs.pop(task, None)
            self.told.discard(task)
        return submission

    def hear(self, message: object) -> None:
        match message:
            case si.ApplicationResponse():
                for accepted in message.accepted:
                    self.queues[accepted.application_id] = accepted.queue_name
                for updated in message.updated:
                    if updated.state in ("Completed", "Failed"):
                        self._forget(updated.application_id)
            case si.AllocationResponse():
                for refused in message.rejected_allocations:
                    self._refused((refused.application_id, refused.allocation_key), refused.reason)
                for new in message.new:
                    self._new(new)
                for released in message.released:
                    self._released(released)

    def _new(self, new: si.Allocation) -> None:
        task = new.application_id, new.allocation_key
        assert task not in self.told, f"{task} is placed twice"
        self.told.add(task)
        self.waits.pop(task, None)
        place = new.node_id, dict(new.resource_per_alloc)
        assert self.runs.setdefault(task, place) == place, f"{task} runs on {self.runs[task]}, and is told to run on {place}"

    def _released(self, released: si.AllocationRelease) -> None:
        task = released.application_id, released.allocation_key
        if task in self.told:
            assert released.termination_type != "STOPPED_BY_RM", "nobody has wished for it"
            self.owed.append(ReleaseAllocations(*task, TerminationType(released.termination_type)))  # type: ignore[arg-type]
        else:
            del self.waits[task]  # it waited, and is given up

    def _refused(self, task: Task, reason: str) -> None:
        """Whatever it came too early for, it is said again; unless its application has come to its end."""
        assert reason.startswith(("failed to find node", "failed to find application")), reason
        self.refused.add(task)
        self.runs.pop(task, None)
        self.waits.pop(task, None)
        if task[0] not in self.ended:
            self.to_say.append(self._said[task])

    def _forget(self, name: str) -> None:
        self.queues.pop(name)
        self.ended.add(name)
        assert not [task for task in self.told if task[0] == name], f"{name} ends and something of it runs"
        for task in [task for task in self.waits if task[0] == name]:
            del self.waits[task]


def cluster_of(partition: DirectPartition, rng: random.Random) -> list[Submission]:
    """The report of a cluster: nodes, applications, what runs and what waits."""
    core, waiting = partition.core, partition.scheduler.state.applications
    said: list[Submission] = []
    for node_id, node in core.registry.nodes.items():
        said.append(UpdateNode(node_id, NodeAction.CREATE if node.schedulable else NodeAction.CREATE_DRAIN, dict(node.capacity)))
        said += [foreign(f"foreign-{node_id}", node_id, vcore=1)] if rng.random() < 0.3 else []
    for application in live(core):
        tags = dict(FORCED) if rng.random() < 0.5 else {}
        gang = application.gang
        style, who = "Hard" if gang.is_hard else "Soft", waiting[application.application_id].who
        timeout_ms = rng.choice((0, 5000, 20_000))
        name, total = application.application_id, dict(gang.total) or None
        said.append(AddApplication(name, application.queue, who.user, who.groups, tags, timeout_ms, total, style))
        for key, (ask, node_id) in application.tasks.allocations.items():
            if key not in application.tasks.released or rng.random() < 0.5:  # it may have ended before the session was lost
                said.append(structs.replace(ask, node_id=node_id))
        pending = [*application.tasks.asks.values(), *(real for real, _ in application.tasks.replacing.values())]
        said += [structs.replace(ask, node_id=None) for ask in pending]  # GA-71
    return said


def rank(submission: Submission) -> int:
    """The order that recovery asks for: nodes, applications, what runs, what waits (SC-144)."""
    match submission:
        case UpdateNode():
            return 0
        case AddApplication():
            return 1
        case Ask() as ask if ask.node_id is not None:
            return 2
    return 3


def _gangs(seed: int) -> tuple[DirectPartition, list[Fact], int]:
    """A partition after some turmoil, its facts to come, and the time."""
    session = Session(seed).play(random.Random(seed).randint(5, 40))
    return session.partition, session.facts, session.manager.now_ns


def _mixture(seed: int) -> tuple[DirectPartition, list[Fact], int]:
    """The same with queues that come and go, limits, priorities and required nodes."""
    history = draw_history(seed)
    world = World(history.config, confirms=False)
    world.play(history.batches)
    return world, world.facts, history.batches[-1].at_ns


class Recovery:
    """A partition that has forgotten everything, and the resource manager that reports to it."""

    def __init__(self, seed: int, *, gangs: bool) -> None:
        self.rng = random.Random(seed)
        self.partition, self._facts, self.now_ns = _gangs(seed) if gangs else _mixture(seed)
        self.cluster = cluster_of(self.partition, self.rng)
        self.lose()
        if self.rng.random() < 0.3:  # with another configuration
            self.partition.intake(self.now_ns, [configure(tree(queue("a")))])
        self.books = Books()

    def lose(self) -> None:
        """The resource manager begins afresh, and nothing is left of what was."""
        self.partition.intake(self.now_ns, [reset()])
        self._heard = len(self._facts)
        assert finished(partition_state(self.partition.core, self.partition.scheduler.state)).applications == {}
        assert self.partition.core.registry.nodes == {}
        assert violations(self.partition.core, self.partition.scheduler) == []

    def say(self, submissions: list[Submission]) -> None:
        self.partition.intake(self.now_ns, [self.books.say(submission) for submission in submissions])
        facts, self._heard = self._facts[self._heard :], len(self._facts)
        for message in responses(facts, "default"):
            self.books.hear(message)

    def report(self, *, in_order: bool) -> Recovery:
        """All of the cluster, in pieces; what is refused because it came too early is said again."""
        rng, books = self.rng, self.books
        books.to_say = list(self.cluster)
        while books.to_say:
            said, books.to_say = books.to_say, []
            rng.shuffle(said)
            if in_order:
                said.sort(key=rank)
            while said:
                count = rng.randint(1, 6)
                piece, said = said[:count], said[count:]
                self.say(piece + [again for again in piece if rng.random() < 0.1 and not isinstance(again, AddApplication)])
                if rng.random() < 0.3:
                    self.confirm(rng.randint(0, len(books.owed)))
                self.now_ns += rng.choice((0, 0, 0, 1, 6)) * S_NS
            books.to_say = [submission for submission in books.to_say if self._may_succeed(submission)]
        return self

    def _may_succeed(self, submission: Submission) -> bool:
        """True if the task is nobody's, or that of an application which lives."""
        return not isinstance(submission, Ask) or submission.application_id in ("", *self.books.queues)

    def confirm(self, count: int) -> None:
        """Some of what is owed, in any order."""
        self.rng.shuffle(self.books.owed)
        said, self.books.owed = self.books.owed[:count], self.books.owed[count:]
        self.say([*said])

    def settle(self) -> Recovery:
        """Confirm all releases that are owed."""
        while self.books.owed:
            self.confirm(len(self.books.owed))
        return self


def check_books(recovery: Recovery) -> None:
    """The scheduler's accounts, all of them, are a fresh count of the resource manager's books."""
    books, core, scheduler = recovery.books, recovery.partition.core, recovery.partition.scheduler
    assert violations(core, scheduler) == []
    applications = live(core)
    assert {application.application_id: application.queue for application in applications} == books.queues
    assert {
        (application.application_id, key): (node_id, ask.resource)
        for application in applications
        for key, (ask, node_id) in application.tasks.allocations.items()
    } == {task: books.runs[task] for task in books.told}
    pending = {(application.application_id, key) for application in applications for key in application.tasks.asks}
    assert pending == set(books.waits)
    nodes: dict[str, Counter[str]] = {node_id: Counter() for node_id in core.registry.nodes}
    queues: dict[str, Counter[str]] = {path: Counter() for path in core.registry.queues}
    strangers = {key: node_id for (name, key), (node_id, _) in books.runs.items() if not name}
    assert {key: node_id for node_id, node in core.registry.nodes.items() for key in node.foreign} == strangers
    for name, key in books.told:
        node_id, resource = books.runs[name, key]
        nodes[node_id].update(resource)
        path = books.queues[name]
        while path:
            queues[path].update(resource)
            path = path.rpartition(".")[0]
    assert {node_id: pruned(node.allocated) for node_id, node in core.registry.nodes.items()} == pruned_all(nodes)
    accounts = scheduler.state.tree.nodes
    assert {path: pruned(account.allocated) for path, account in accounts.items()} == pruned_all(queues)


def pruned_all(resources: dict[str, Counter[str]]) -> dict[str, dict[str, int]]:
    return {name: pruned(dict(resource)) for name, resource in resources.items()}


BOTH = pytest.mark.parametrize("gangs", [True, False], ids=["gangs", "mixture"])


@BOTH
@pytest.mark.parametrize("seed", seeds(100))
def test_in_any_order(seed: int, gangs: bool) -> None:
    """Nothing is buffered, nothing counts twice, nothing is placed twice, and in the end the books agree (SC-144, SC-145)."""
    check_books(Recovery(6000 + seed, gangs=gangs).report(in_order=False).settle())


@BOTH
@pytest.mark.parametrize("seed", seeds(60))
def test_in_the_order_that_is_asked_for(seed: int, gangs: bool) -> None:
    """Nothing is refused but applications that have no queue any more, and what belongs to them; the books agree (SC-144)."""
    recovery = Recovery(7000 + seed, gangs=gangs)
    check_books(recovery.report(in_order=True).settle())
    assert [task for task in recovery.books.refused if task[0] in recovery.books.queues] == []
    forced = {entry.application_id for entry in recovery.cluster if isinstance(entry, AddApplication) and entry.tags == FORCED}
    assert forced <= recovery.books.queues.keys() | recovery.books.ended


@BOTH
@pytest.mark.parametrize("seed", seeds(60))
def test_twice(seed: int, gangs: bool) -> None:
    """A second loss of the session in the middle of the report leaves nothing behind either (SC-141)."""
    recovery = Recovery(8000 + seed, gangs=gangs)
    half = recovery.cluster[: len(recovery.cluster) // 2]
    recovery.partition.intake(recovery.now_ns, recovery.rng.sample(half, len(half)))
    recovery.lose()
    check_books(recovery.report(in_order=recovery.rng.random() < 0.5).settle())
