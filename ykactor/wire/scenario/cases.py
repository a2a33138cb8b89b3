"""Cases: what a queue configuration is expected to do, as ``ykactor test`` runs them. A file is YAML or JSON.

The steps of a case become the messages of a scenario; ``sim.cases`` plays them and compares.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from ykactor.core.messages.kinds import NodeAction, PendingCode, TerminationType
from ykactor.core.values.quantities import QuantityError, parse_quantity
from ykactor.core.values.resources import Resource
from ykactor.wire.queuefile.fields import Key
from ykactor.wire.queuefile.text import ConfigError, Mistakes
from ykactor.wire.scenario.load import Document, Part, ScenarioError, converted, document_of, is_file_name, named_text
from ykactor.wire.scenario.mistakes import Found, shown
from ykactor.wire.scenario.model import SECONDS_MAX, ScenarioRequest, Second, TimedRequest
from ykactor.wire.si import messages as si
from ykactor.wire.si.messages.base import Priority

#: The tasks of one group.
COUNT_MAX = 100_000
#: ``4 x vcore=1 memory=2Gi``; ``4 x`` may be left out.
_GROUP = re.compile(r"(?:(?P<count>[1-9][0-9]*) +x +)?(?P<amounts>\S+=\S+(?: +\S+=\S+)*)")

#: By resource type; a number is as the same text.
Amounts = dict[str, str | int | float]
Seconds = Annotated[float, Meta(gt=0, le=SECONDS_MAX)]


class Tasks(Struct, forbid_unknown_fields=True, rename="camel"):
    """Equal tasks of an application.

    Attributes:
        resources: of each.
        run_seconds: how long each runs; None: until it is released.
        preempts, preemptible: whether they may preempt, and be preempted.
    """

    resources: Amounts
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 1
    priority: Priority = 0
    run_seconds: Seconds | None = None
    preempts: bool = True
    preemptible: bool = True
    task_group: str = ""
    placeholder: bool = False
    tags: dict[str, str] = {}


class Submit(Struct, forbid_unknown_fields=True, rename="camel"):
    """Tasks of an application, which is submitted with the first of them: ``APP-1``, ``APP-2`` and so on."""

    app: str
    queue: str = ""
    user: str = "user"
    groups: list[str] = []
    tags: dict[str, str] = {}
    asks: str | list[str | Tasks] = []


class Step(Struct, forbid_unknown_fields=True, rename="camel"):
    """One thing that happens.

    Attributes:
        at: the virtual second; not before that of the step before.
        nodes: new nodes, by name.
        attributes: of these nodes, by name.
        release: tasks that end. complete: applications that end. drain, remove: nodes.
        config: the text of another configuration, or the name of a queue file.
        send: any message that a scenario may have.
    """

    at: Second = 0
    submit: Submit | None = None
    nodes: dict[str, Amounts] = {}
    attributes: dict[str, dict[str, str]] = {}
    release: list[str] = []
    complete: list[str] = []
    drain: list[str] = []
    remove: list[str] = []
    config: str = ""
    send: dict[str, Any] = {}


class Expectation(Struct, forbid_unknown_fields=True, rename="camel"):
    """Expected facts at a time, when nothing more can be decided.

    Attributes:
        at: the virtual second; None: that of ``by``, or the last one of the case.
        by: until this second, ``placed`` and ``order`` count tasks that have ended too.
        placed: tasks that run, with their nodes. preempted, ended: tasks that were preempted, or have ended for any reason.
        pending: tasks that wait, with ``CODE``, ``CODE in QUEUE``, or a regular expression for the sentence between slashes.
        rejected: applications or tasks, with a regular expression for the reason.
        order: tasks in the order in which they were placed, maybe with others between them.
        used: by queue. states: of applications.
    """

    at: Second | None = None
    by: Second | None = None
    placed: dict[str, str] | list[str] = []
    pending: dict[str, str] | list[str] = []
    preempted: list[str] = []
    ended: list[str] = []
    rejected: dict[str, str] | list[str] = []
    order: list[str] = []
    used: dict[str, Amounts] = {}
    states: dict[str, str] = {}


#: What an expectation may have beside its second, and the codes of AP-150.
_EXPECTED = [name for name in Expectation.__struct_fields__ if name not in ("at", "by")]
_CODES = [code.value for code in PendingCode]


class _Case(Struct, forbid_unknown_fields=True, rename="camel"):
    """A case as it is written; ``config`` replaces that of the file."""

    name: str
    expect: Annotated[list[Expectation], Meta(min_length=1)]
    config: str | None = None
    nodes: dict[str, Amounts] = {}
    attributes: dict[str, dict[str, str]] = {}
    steps: list[Step] = []


class _File(Struct, forbid_unknown_fields=True):
    """Cases with a common configuration."""

    cases: Annotated[list[_Case], Meta(min_length=1)]
    config: str = ""


class Case(Struct):
    """A case.

    Attributes:
        config: the text of the configuration; ``config_name`` names it in messages.
        messages: in the order of their ``at``.
        expectations: each with its second.
        applications: of each task that a step submits, by its key.
        keys: that lead to it in its file.
    """

    name: str
    config: str
    config_name: str
    messages: list[TimedRequest]
    expectations: list[tuple[float, Expectation]]
    applications: dict[str, str]
    keys: tuple[Key, ...]


class Cases(Struct):
    """The cases of a file."""

    file: Path
    cases: list[Case]
    document: Document

    def line(self, keys: tuple[Key, ...]) -> int:
        """The line of what is at these keys."""
        return self.document.place(keys)[0]


def load_cases(path: Path) -> Cases:
    """Read a file.

    Raises:
        ScenarioError: with all mistakes. OSError: it, or a queue file that it names, cannot be read.
    """
    mistakes = Mistakes(str(path))
    try:
        document = document_of(path, mistakes)
    except ConfigError as error:
        raise ScenarioError(error.mistakes) from None
    reader = None if document is None else _Reader(path, document, mistakes)
    cases = [] if reader is None else list(reader.cases())
    if mistakes.found or document is None:
        raise ScenarioError(sorted(mistakes.found, key=lambda mistake: (mistake.line, mistake.column)))
    return Cases(path, cases, document)


def amounts(given: Amounts) -> Resource:
    """Amounts in base units, as a queue file has them: a bare number of ``vcore`` counts cores. Raises:  QuantityError."""
    return {name: parse_quantity(name, str(amount)) for name, amount in given.items()}


def expression(text: str) -> re.Pattern[str] | None:
    """The regular expression of a text between slashes; None of any other text. Raises:  re.error."""
    return re.compile(text[1:-1]) if len(text) > 1 and text[0] == text[-1] == "/" else None


class _Reader:
    """Makes cases of a document and collects its mistakes."""

    def __init__(self, path: Path, document: Document, mistakes: Mistakes) -> None:
        self._path = path
        self._whole = Part(document.tree, document)
        self._mistakes = mistakes

    def cases(self) -> Iterator[Case]:
        """The cases without a mistake."""
        file = converted(self._whole, self._whole.tree, _File, self._mistakes)
        if file is None:
            return
        names = set[str]()
        for index, case in enumerate(file.cases):
            if case.name in names:
                self.note(("cases", index, "name"), f"found {shown(case.name)} a second time, expected another name")
            names.add(case.name)
            yield self._case(file, case, ("cases", index))

    def _case(self, file: _File, case: _Case, keys: tuple[Key, ...]) -> Case:
        given, at_keys = (file.config, ("config",)) if case.config is None else (case.config, (*keys, "config"))
        text, name = self._config(given, at_keys)
        messages = _Messages(self, keys)
        first = Step(nodes=case.nodes, attributes=case.attributes)
        if case.nodes or case.attributes:
            messages.add(first, keys)
        for index, step in enumerate(case.steps):
            messages.add(step, (*keys, "steps", index))
        expectations = self._expectations(case, messages.last_s, keys)
        return Case(case.name, text, name, messages.sent, expectations, messages.applications, keys)

    def _config(self, given: str, keys: tuple[Key, ...]) -> tuple[str, str]:
        """The text of a configuration, and its name in messages."""
        if is_file_name(given):
            file = self._path.parent / given.strip()
            return named_text(file, self._path), str(file)
        return given, f"{self._path}: {'.'.join(map(str, keys))}"

    def _expectations(self, case: _Case, last_s: float, keys: tuple[Key, ...]) -> list[tuple[float, Expectation]]:
        given = [second for each in case.expect for second in (each.at, each.by) if second is not None]
        end_s, found = max([last_s, *given]), list[tuple[float, Expectation]]()
        for index, each in enumerate(case.expect):
            place = (*keys, "expect", index)
            if not any(getattr(each, field) for field in _EXPECTED):
                self.note(place, f"found nothing that is expected, expected one of {', '.join(_EXPECTED)}")
            if each.at is not None and each.by is not None:
                self.note(place, "found both at and by, expected one of them")
            if each.by is not None and (each.pending or each.used or each.states):
                self.note(place, "found by, expected at for what may change again: pending, used and states")
            for queue, given_amounts in each.used.items():
                self.amounts(given_amounts, (*place, "used", queue))
            self._check_texts(each, place)
            second = each.at if each.at is not None else each.by
            found.append((end_s if second is None else second, each))
        return found

    def _check_texts(self, each: Expectation, keys: tuple[Key, ...]) -> None:
        for field in ("pending", "rejected"):
            texts = getattr(each, field)
            for name, text in texts.items() if isinstance(texts, dict) else ():
                try:
                    is_expression = expression(text) is not None
                except re.error as error:
                    self.note((*keys, field, name), f"found {shown(text)}, expected a regular expression: {error}")
                    continue
                if field == "pending" and not is_expression and text.partition(" in ")[0] not in _CODES:
                    expected = f"a regular expression between slashes or one of {', '.join(_CODES)}, maybe with in QUEUE"
                    self.note((*keys, field, name), f"found {shown(text)}, expected {expected}")

    def amounts(self, given: Amounts, keys: tuple[Key, ...]) -> Resource:
        """Amounts in base units; notes the mistake of each that is wrong."""
        found: Resource = {}
        for name, amount in given.items():
            try:
                found |= amounts({name: amount})
            except QuantityError as error:
                self.note((*keys, name), str(error))
        return found

    def config_text(self, given: str, keys: tuple[Key, ...]) -> str:
        """The text of another configuration."""
        return self._config(given, keys)[0]

    def request(self, tree: dict[str, Any], keys: tuple[Key, ...]) -> ScenarioRequest | None:
        """A message that is written as in a scenario."""
        found: ScenarioRequest | None = converted(Part(tree, self._whole.document, keys), tree, ScenarioRequest, self._mistakes)
        return found

    def note(self, keys: tuple[Key, ...], message: str) -> None:
        """Note a mistake of what is at these keys."""
        self._whole.note(self._mistakes, Found(keys, message))


class _Messages:
    """The messages of the steps of a case.

    Attributes:
        last_s: the second of the last one.
        applications: of each task.
    """

    def __init__(self, reader: _Reader, keys: tuple[Key, ...]) -> None:
        self.sent: list[TimedRequest] = []
        self.last_s = 0.0
        self.applications: dict[str, str] = {}
        self._reader = reader
        self._counts: dict[str, int] = {}
        self._known_nodes = set[str]()

    def add(self, step: Step, keys: tuple[Key, ...]) -> None:
        """Add the messages of a step, which is at these keys."""
        if step.at < self.last_s:
            self._reader.note((*keys, "at"), f"found {step.at:g}, expected at least {self.last_s:g}, the at of the step before")
        self.last_s = max(self.last_s, step.at)
        before = len(self.sent)
        nodes = list(self._nodes(step, keys))
        if nodes:
            self._send(step, si.NodeRequest(nodes=nodes))
        if step.submit is not None:
            self._submit(step, step.submit, (*keys, "submit"))
        if step.release:
            self._send(step, si.AllocationRequest(releases=self._releases(step.release, keys)))
        if step.complete:
            self._check_known("complete", step.complete, self._counts, "an application", keys)
            self._send(step, si.ApplicationRequest(remove=[si.RemoveApplicationRequest(name) for name in step.complete]))
        if step.config:
            text = self._reader.config_text(step.config, (*keys, "config"))
            self._send(step, si.UpdateConfigurationRequest(config=text))
        if step.send and (request := self._reader.request(step.send, (*keys, "send"))) is not None:
            self._send(step, request)
        if len(self.sent) == before and not step.send:
            self._reader.note(keys, "found a step that does nothing, expected submit, nodes, release or another key")

    def _send(self, step: Step, request: ScenarioRequest, run_seconds: dict[int, float] | None = None) -> None:
        self.sent.append(TimedRequest(step.at, request, run_seconds or {}))

    def _nodes(self, step: Step, keys: tuple[Key, ...]) -> Iterator[si.NodeInfo]:
        for name in step.attributes.keys() - step.nodes.keys():
            self._reader.note((*keys, "attributes", name), f"found attributes of {name}, expected a node of this step")
        for name, given in step.nodes.items():
            capacity = self._reader.amounts(given, (*keys, "nodes", name))
            attributes = step.attributes.get(name, {})
            yield si.NodeInfo(name, NodeAction.CREATE.value, attributes, capacity)
        self._known_nodes |= {*step.nodes}
        self._check_known("drain", step.drain, self._known_nodes, "a node", keys)
        self._check_known("remove", step.remove, self._known_nodes, "a node", keys)
        for action, names in ((NodeAction.DRAIN_NODE, step.drain), (NodeAction.DECOMISSION, step.remove)):
            yield from (si.NodeInfo(name, action.value) for name in names)

    def _releases(self, names: list[str], keys: tuple[Key, ...]) -> si.AllocationReleasesRequest:
        self._check_known("release", names, self.applications, "a task", keys)
        kind, known = TerminationType.STOPPED_BY_RM.value, self.applications
        found = [si.AllocationRelease(known[name], name, termination_type=kind) for name in names if name in known]
        return si.AllocationReleasesRequest(found)

    def _check_known(self, field: str, names: list[str], known: Container[str], what: str, keys: tuple[Key, ...]) -> None:
        for index, name in enumerate(names):
            if name not in known:
                self._reader.note((*keys, field, index), f"found {shown(name)}, expected {what} of this step or one before")

    def _submit(self, step: Step, submit: Submit, keys: tuple[Key, ...]) -> None:
        if submit.app not in self._counts:
            self._counts[submit.app] = 0
            who = si.UserGroupInformation(submit.user, submit.groups)
            new = si.AddApplicationRequest(submit.app, submit.queue, ugi=who, tags=submit.tags)
            self._send(step, si.ApplicationRequest(new=[new]))
        else:
            for field in ("queue", "user", "groups", "tags"):
                if getattr(submit, field) != getattr(Submit(submit.app), field):
                    expected = f"it where {submit.app} is submitted first: an application has one"
                    self._reader.note((*keys, field), f"found {shown(getattr(submit, field))}, expected {expected}")
        asks, run_seconds = list[si.Allocation](), dict[int, float]()
        groups: list[str | Tasks] = [submit.asks] if isinstance(submit.asks, str) else submit.asks
        for index, group in enumerate(groups):
            place = (*keys, "asks") if isinstance(submit.asks, str) else (*keys, "asks", index)
            tasks = self._tasks(group, place) if isinstance(group, str) else group
            for ask in self._asks(submit.app, tasks, (*place, "resources")) if tasks is not None else ():
                if tasks is not None and tasks.run_seconds is not None:
                    run_seconds[len(asks)] = tasks.run_seconds
                asks.append(ask)
        if asks:
            self._send(step, si.AllocationRequest(allocations=asks), run_seconds)

    def _tasks(self, text: str, keys: tuple[Key, ...]) -> Tasks | None:
        match = _GROUP.fullmatch(text.strip())
        if match is None:
            self._reader.note(keys, f"found {shown(text)}, expected tasks such as 4 x vcore=1 memory=2Gi")
            return None
        count = match["count"] or "1"
        if len(count) > len(str(COUNT_MAX)) or int(count) > COUNT_MAX:
            self._reader.note(keys, f"found {shown(text)}, expected at most {COUNT_MAX} tasks")
            return None
        resources: Amounts = {}
        for pair in match["amounts"].split():
            name, _, resources[name] = pair.partition("=")
        return Tasks(resources, int(count))

    def _asks(self, app: str, tasks: Tasks, keys: tuple[Key, ...]) -> Iterator[si.Allocation]:
        resource = self._reader.amounts(tasks.resources, keys)
        policy = si.PreemptionPolicy(tasks.preemptible, tasks.preempts)
        for _ in range(tasks.count):
            self._counts[app] += 1
            key = f"{app}-{self._counts[app]}"
            self.applications[key] = app
            yield si.Allocation(
                key,
                app,
                resource_per_alloc=resource,
                priority=tasks.priority,
                allocation_tags=tasks.tags,
                task_group_name=tasks.task_group,
                placeholder=tasks.placeholder,
                preemption_policy=policy,
            )
