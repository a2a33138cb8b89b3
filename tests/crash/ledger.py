"""The own knowledge of a resource manager: what it has sent, and what every message since then has told it.

Messages are taken by number, each once. A number that comes again, after a resume or from the journal, must come with the same
content. Keys of tasks and applications are never used twice, so a task that is told to run twice was doubled.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct, field

from ykactor.core.records.rows import TaskRow
from ykactor.wire.queuefile.load import load
from ykactor.wire.si import messages as si

OVER = ("Completed", "Failed", "Expired")
STOPPED, HANDED_BACK = "STOPPED_BY_RM", "SCHEDULING_FAILED_ON_RM"


class Task(Struct, eq=False):
    """An ask or allocation, and what the resource manager knows of it.

    Attributes:
        node_id: where it runs, once that was told; "" again when it was certainly handed back.
        handed_back: the nodes from which it may have been handed back: sent, and not acknowledged.
        has_failed: whether it was ever handed back.
        is_acknowledged: whether the request that asked for it was.
        is_leaving: a release was told that waits for the resource manager.
        may_be_gone, must_be_gone: whether something was sent or told that ends it, or certainly has ended it.
    """

    partition: str
    application: str
    key: str
    is_placeholder: bool = False
    node_id: str = ""
    handed_back: set[str] = field(default_factory=set)
    has_failed: bool = False
    is_acknowledged: bool = False
    is_leaving: bool = False
    may_be_gone: bool = False
    must_be_gone: bool = False

    def may_wait(self) -> bool:
        """True if it does not run as far as is known, or may have been handed back."""
        return not self.node_id or self.node_id in self.handed_back


class Application(Struct, eq=False):
    """An application; ``tasks`` are all that were ever asked for."""

    partition: str
    application_id: str
    is_gang: bool = False
    state: str = ""
    tasks: list[Task] = field(default_factory=list)
    is_acknowledged: bool = False
    may_be_gone: bool = False
    must_be_gone: bool = False


class Node(Struct, eq=False):
    """A node of a partition."""

    partition: str
    node_id: str
    is_acknowledged: bool = False
    may_be_gone: bool = False
    must_be_gone: bool = False


Known = Task | Application | Node


class Sent(Struct):
    """A request without an answer: what it makes, and what it ends.

    Attributes:
        is_repeated: a part of it was carried out before.
        had_effect: something that it makes was found in the state of a daemon that was killed.
    """

    request: Any
    makes: list[Known]
    ends: list[Known]
    is_repeated: bool = False
    had_effect: bool = False


class Ledger:
    """The messages that one registration has sent and received.

    Args:
        first: the number before that of the first message.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self.messages: list[bytes] = []
        self.tasks: dict[str, Task] = {}
        self.applications: dict[str, Application] = {}
        self.nodes: dict[str, Node] = {}
        self.unanswered: dict[str, Sent] = {}
        #: Requests that the daemon has carried out in part.
        self.interrupted: list[Sent] = []
        self.answered: set[str] = set()
        #: The checksums of configurations that were acknowledged since somebody took them from here.
        self.configurations: list[str] = []
        #: Releases that wait for our confirmation.
        self.leaving: list[Task] = []
        self.counts: Counter[str] = Counter()

    @property
    def sequence(self) -> int:
        """The number of the newest message."""
        return self.first + len(self.messages)

    # ---- what is sent

    def send(self, sent: Sent) -> None:
        """A request is about to be sent."""
        self.unanswered[sent.request.id] = sent
        for known in sent.ends:
            self._may_end(known)
        for task, node_id in self._handed_back(sent):
            task.handed_back.add(node_id)
            task.has_failed = True

    def _handed_back(self, sent: Sent) -> list[tuple[Task, str]]:
        releases = sent.request.releases.allocations_to_release if isinstance(sent.request, si.AllocationRequest) else []
        returned = [entry for entry in releases if entry.termination_type == HANDED_BACK]
        return [(self.tasks[entry.allocation_key], entry.node_id) for entry in returned]

    def _may_end(self, known: Known) -> None:
        known.may_be_gone = True
        for task in known.tasks if isinstance(known, Application) else ():
            task.may_be_gone = True

    # ---- what is told

    def take(self, message: Any) -> None:
        """The next message, or one again."""
        data = msgspec.json.encode(message)
        if message.sequence <= self.sequence:
            before = self.messages[message.sequence - self.first - 1]
            assert data == before, f"message {message.sequence} was {before!r} and is now {data!r}"
            return
        assert message.sequence == self.sequence + 1, f"found message {message.sequence}, expected {self.sequence + 1}"
        self.messages.append(data)
        self.counts[type(message).__name__] += 1
        match message:
            case si.AllocationResponse():
                self._on_allocations(message)
            case si.ApplicationResponse():
                self._on_applications(message)
            case si.SchedulingStateResponse():
                self._on_scheduling_states(message)
            case si.NodeResponse():
                assert not message.rejected, f"{message}: no node was created twice"
            case si.Ack() | si.ErrorResponse():
                self._on_answer(message)

    def _on_allocations(self, message: si.AllocationResponse) -> None:
        for new in message.new:
            task = self.tasks[new.allocation_key]
            assert task.may_wait(), f"{task.key} runs on {task.node_id}, and now on {new.node_id}"
            self.counts["placed again"] += task.has_failed
            task.node_id = new.node_id
            self.counts["allocations"] += 1
        for release in message.released:
            task = self.tasks[release.allocation_key]
            self.counts[release.termination_type] += 1
            if release.termination_type == STOPPED or not task.node_id:
                task.may_be_gone = task.must_be_gone = True
            else:
                task.is_leaving = True
                task.may_be_gone |= task.may_wait()  # then it has ended with this message
                self.leaving.append(task)
        for rejected in message.rejected_allocations:
            task = self.tasks[rejected.allocation_key]
            task.may_be_gone = task.must_be_gone = True
            self.counts["rejected"] += 1

    def _on_scheduling_states(self, message: si.SchedulingStateResponse) -> None:
        """Only of what waits is told why (AP-146)."""
        for entry in message.entries:
            task = self.tasks[entry.allocation_key]
            assert task.may_wait(), f"{entry}: it runs on {task.node_id}"
            assert not task.must_be_gone, f"{entry}: it is gone"

    def _on_applications(self, message: si.ApplicationResponse) -> None:
        for rejected in message.rejected:
            assert "already" not in rejected.reason, f"{rejected}: no application was added twice"
            application = self.applications[rejected.application_id]
            application.may_be_gone = application.must_be_gone = True
            self.counts["rejected"] += 1
        for updated in message.updated:
            application = self.applications[updated.application_id]
            application.state = updated.state
            if updated.state in OVER:
                self._may_end(application)

    def _on_answer(self, message: si.Ack | si.ErrorResponse) -> None:
        assert message.id not in self.answered, f"request {message.id} was answered twice"
        if message.id:
            self.answered.add(message.id)
        sent = self.unanswered.pop(message.id, None)
        if sent is None:
            return  # a registration
        if isinstance(message, si.Ack):
            self._carried_out(sent, message.checksum)
            return
        self.counts[message.code] += 1
        if message.code == "INTERRUPTED":
            self.interrupted.append(sent)
            return
        for known in sent.makes:
            known.may_be_gone = known.must_be_gone = True

    def _carried_out(self, sent: Sent, checksum: str) -> None:
        self.counts[type(sent.request).__name__] += 1
        if isinstance(sent.request, si.UpdateConfigurationRequest):
            assert checksum == load(sent.request.config).checksum
            self.configurations.append(checksum)
        for known in sent.makes:
            known.is_acknowledged = True
        for task, node_id in self._handed_back(sent):
            self.counts["handed back"] += 1
            task.handed_back.discard(node_id)
            if task.node_id == node_id and not task.is_leaving:
                task.node_id = ""
        if not isinstance(sent.request, si.TerminateApplication):
            for known in sent.ends:
                known.must_be_gone = True

    # ---- against the state

    def check(self, rows: dict[str, TaskRow], applications: set[str], nodes: set[str]) -> None:
        """Against the state after the newest message: tasks by key, live applications, nodes."""
        found = {*rows, *applications, *nodes}
        for sent in self.unanswered.values():
            sent.had_effect |= not sent.is_repeated and any(name_of(known) in found for known in sent.makes)
        for key, row in rows.items():
            self._check_present(self.tasks[key], row)
        everything: list[Known] = [*self.tasks.values(), *self.applications.values(), *self.nodes.values()]
        for known in everything:
            name = name_of(known)
            if name in found:
                assert not known.must_be_gone, f"{name} is there: {known}"
            elif known.is_acknowledged or (isinstance(known, Task) and known.node_id):
                assert known.may_be_gone, f"{name} is lost: {known}"

    @staticmethod
    def _check_present(task: Task, row: TaskRow) -> None:
        if row.began_ns is None:
            assert task.may_wait(), f"{task.key} is pending, but was told to run on {task.node_id}"
        else:
            assert row.node_id == task.node_id, f"{task.key} runs on {row.node_id}, but told was {task.node_id or 'nothing'}"
            assert row.released == task.is_leaving, f"{task.key}: released is {row.released}, told was {task.is_leaving}"


def name_of(known: Known) -> str:
    """The key or id."""
    match known:
        case Task(key=name) | Application(application_id=name) | Node(node_id=name):
            return name
