"""The decision log: facts as JSON Lines, to compare what two runs decided.

A table gives for each class of fact the function that makes its entry; a fact whose class is not in the table has no entry,
except ``Released``, whose entry depends on its message, and ``SchedulingStateChanged``, which has several.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    ApplicationAdded,
    ApplicationChanged,
    ApplicationRejected,
    ConfigurationChanged,
    Fact,
    NodeAdded,
    NodeRejected,
    Released,
    ReleaseStarted,
    SchedulingStateChanged,
)

Line = dict[str, object]

_JSON = msgspec.json.Encoder()


def decision_lines(fact: Fact) -> list[Line]:
    """The entries for one fact: none or one, but one for each ask that is told to wait. ``at`` is in seconds."""
    if isinstance(fact, SchedulingStateChanged):
        return [{"at": fact.at_ns / 1e9, **_waiting_line(fact, key)} for key in fact.allocation_keys]
    if isinstance(fact, Released) and fact.message:  # without a message it confirms a ReleaseStarted, which has the entry
        return [{"at": fact.at_ns / 1e9, **_released_line(fact)}]
    build = _LINES.get(type(fact))
    return [] if build is None else [{"at": fact.at_ns / 1e9, **build(fact)}]


def decision_log(facts: Iterable[Fact]) -> bytes:
    """All entries as JSON Lines, in the order of the facts. Equal facts give equal bytes."""
    return _JSON.encode_lines([line for fact in facts for line in decision_lines(fact)])


def _node_line(node_id: str, state: str, reason: str = "") -> Line:
    return {"decision": "node", "nodeID": node_id, "state": state, "reason": reason}


def _application_line(application_id: str, state: str, reason: str = "") -> Line:
    return {"decision": "application", "applicationID": application_id, "state": state, "reason": reason}


def _allocation_line(decision: str, ask: Ask, queue: str, node_id: str) -> Line:
    line: Line = {
        "decision": decision,
        "allocationKey": ask.allocation_key,
        "applicationID": ask.application_id,
        "queueName": queue,
    }
    # A placeholder that times out before it was placed has no node.
    return {**line, "nodeID": node_id} if node_id else line


def _rejected_line(fact: AllocationRejected) -> Line:
    return {
        "decision": "rejected",
        "allocationKey": fact.allocation_key,
        "applicationID": fact.application_id,
        "reason": fact.reason,
    }


def _released_line(fact: Released | ReleaseStarted) -> Line:
    return {**_allocation_line("released", fact.ask, fact.queue, fact.node_id or ""), "terminationType": fact.termination_type}


def _waiting_line(fact: SchedulingStateChanged, key: str) -> Line:
    return {
        "decision": "waiting",
        "allocationKey": key,
        "applicationID": fact.application_id,
        "queueName": fact.queue,
        "state": fact.state,
        "cause": fact.cause,
        "reason": fact.reason,
    }


def _configuration_line(fact: ConfigurationChanged) -> Line:
    state = "accepted" if fact.is_accepted else "rejected"
    return {"decision": "configuration", "state": state, "reason": fact.reason}


_LINES: dict[type, Callable[[Any], Line]] = {
    NodeAdded: lambda fact: _node_line(fact.node_id, "accepted"),
    NodeRejected: lambda fact: _node_line(fact.node_id, "rejected", fact.reason),
    ApplicationAdded: lambda fact: _application_line(fact.application_id, "New"),
    ApplicationRejected: lambda fact: _application_line(fact.application_id, "Rejected", fact.reason),
    ApplicationChanged: lambda fact: _application_line(fact.application_id, fact.state, fact.why),
    Allocated: lambda fact: _allocation_line("allocated", fact.ask, fact.queue, fact.node_id),
    ReleaseStarted: _released_line,
    AllocationRejected: _rejected_line,
    ConfigurationChanged: _configuration_line,
}
