"""Asks, with everything that stays the same while an ask is pending and while its allocation runs."""

from typing import final

from msgspec import Struct, structs

from ykactor.core.messages.kinds import Rejection, RejectionCode
from ykactor.core.values import selector
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID
from ykactor.core.values.quantities import parse_uint64
from ykactor.core.values.resources import Resource
from ykactor.core.values.selector import Selector
from ykactor.core.values.times import S_NS, US_NS

#: Tags that pin an ask to one node; the first wins (AP-54).
REQUIRED_NODE_TAGS = ("kubernetes.io/meta/requiredNode", "yunikorn.apache.org/requiredNode")
#: The tag of an ask with its predicate class, and the longest class.
PREDICATE_TAG = "ykactor.io/predicate"
PREDICATE_CLASS_MAX = 253
#: The tag of a foreign allocation; with the value ``static`` it never ends by itself (SC-85).
FOREIGN_TAG, STATIC = "foreign", "static"
NEGATIVE_RESOURCES = "allocation contains negative resources"


@final
class Failure(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The resource manager could not start a task on a node (AP-144).

    Attributes:
        count: the number of failures there.
        until_ns: the node is left out for the ask before this time; 0 if it is no longer.
    """

    node_id: NodeID
    count: int
    until_ns: int


@final
class Ask(Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """One entry of ``AllocationRequest.allocations``, and what its leaf stamps on it: the pending ask, later its allocation.

    Attributes:
        node_id: it was sent as an allocation that runs there (AP-109).
        releasing: it is ending already (AP-145).
        failures: come with time, the last one last.
        created_ns: orders asks of equal priority (PR-52).
        arrival: makes the order total (PR-31).
        since_ns: its age counts from here: its creation or its arrival, whichever is earlier (AP-56).
    """

    allocation_key: AllocationKey
    application_id: ApplicationID
    resource: Resource
    priority: int = 0
    node_id: NodeID | None = None
    tags: dict[str, str] = {}
    task_group_name: str = ""
    placeholder: bool = False
    originator: bool = False
    allow_preempt_self: bool = True
    allow_preempt_other: bool = False
    releasing: bool = False
    failures: tuple[Failure, ...] = ()
    created_ns: int = 0
    arrival: int = 0
    since_ns: int = 0

    @property
    def words(self) -> str:
        kind = "ask" if self.node_id is None else "allocation"
        owner = f" of {self.application_id}" if self.application_id else ""
        return f"the request for {kind} {self.allocation_key}{owner}" + ("" if self.node_id is None else f" on {self.node_id}")


class AskRow(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """An ask in rows and facts of journals before version 4: its stamps are beside it, also if they are 0."""

    spec: Ask
    created_ns: int
    arrival: int
    since_ns: int = 0

    def ask(self) -> Ask:
        """The ask with its stamps."""
        return structs.replace(self.spec, created_ns=self.created_ns, arrival=self.arrival, since_ns=self.since_ns)


def unstamped(ask: Ask) -> Ask:
    """The ask as it was sent."""
    return structs.replace(ask, created_ns=0, arrival=0, since_ns=0)


#: Allocation keys are unique within an application only.
AskID = tuple[ApplicationID, AllocationKey]


#: The Unix time in seconds at which an ask was created.
CREATED_TAG = "creationTime"

#: For how many seconds a task runs at most, of an ask or an application: no decision depends on it, but copies of a partition do.
RUN_SECONDS_TAG = "runSeconds"
_RUN_SECONDS_MAX = 8_000_000_000
#: With any text: the application was let in with its ``runSeconds`` before, whatever its queue allows now (AP-158).
RUN_SECONDS_GRANTED_TAG = "runSecondsGranted"


def run_ns(text: str) -> int | None:
    """The run time that a tag tells, in whole microseconds; None if it tells none (AP-157)."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return max(US_NS, round(seconds * S_NS / US_NS) * US_NS) if 0 < seconds <= _RUN_SECONDS_MAX else None


def created_ns(ask: Ask, arrival_ns: int) -> int:
    """The creation time of an ask or a foreign allocation: its tag ``creationTime`` in Unix seconds, else its arrival (PR-52)."""
    seconds = parse_uint64(ask.tags.get(CREATED_TAG, "")) if ask.tags else None
    return arrival_ns if seconds is None else seconds * S_NS


def is_foreign(ask: Ask) -> bool:
    """True if the allocation is foreign: it only uses resources of its node (SC-81)."""
    return bool(ask.tags) and FOREIGN_TAG in ask.tags


def ask_id(ask: Ask) -> AskID:
    """The identifier of an ask in its partition."""
    return ask.application_id, ask.allocation_key


def resized(ask: Ask, resource: Resource) -> Ask:
    """The ask with another size."""
    return structs.replace(ask, resource=resource)


def with_policy_of(ask: Ask, update: Ask) -> Ask:
    """The ask with ``allow_preempt_self`` of the update (AP-116); the same ask if it has that already."""
    if ask.allow_preempt_self is update.allow_preempt_self:
        return ask
    return structs.replace(ask, allow_preempt_self=update.allow_preempt_self)


#: The time that a node is left out after the first failure, doubled with each further one up to the most (AP-144).
BACKOFF_NS, BACKOFF_MAX_NS = 30 * S_NS, 600 * S_NS
#: Failures that are remembered of an ask: those on the nodes that failed last.
FAILURES_MAX = 16


def handed_back(ask: Ask, now_ns: int, node_id: NodeID) -> Ask:
    """The pending ask of an allocation that could not start on the node, which is left out for it for a while (AP-144)."""
    known = readmitted(ask, now_ns).failures
    others = [failure for failure in known if failure.node_id != node_id]
    count = 1 + next((failure.count for failure in known if failure.node_id == node_id), 0)
    delay_ns = min(BACKOFF_NS << min(count - 1, 8), BACKOFF_MAX_NS)
    failures = (*others, Failure(node_id, count, now_ns + delay_ns))[-FAILURES_MAX:]
    return structs.replace(ask, node_id=None, failures=failures)


def readmitted(ask: Ask, now_ns: int) -> Ask:
    """The ask without nodes that are no longer left out at ``now_ns``; the same ask if there are none."""
    if not any(0 < failure.until_ns <= now_ns for failure in ask.failures):
        return ask
    failures = tuple(structs.replace(failure, until_ns=0) if failure.until_ns <= now_ns else failure for failure in ask.failures)
    return structs.replace(ask, failures=failures)


def left_out(ask: Ask) -> tuple[NodeID, ...]:
    """The nodes that are left out for an ask, in order."""
    return tuple(sorted(failure.node_id for failure in ask.failures if failure.until_ns))


#: The properties of an ask that decide if it fits a node: resources, required node, selector of node attributes with the nodes
#: that are left out, and predicate class, which the resource manager checks ("" is none).
Shape = tuple[tuple[tuple[str, int], ...], NodeID | None, Selector, str]


def look_work(shape: Shape) -> int:
    """The work units of checking a node for a shape: 1 unless it has many amounts or requirements."""
    return 1 + len(shape[0]) // 8 + len(shape[2]) // 4


def shape_of(ask: Ask) -> Shape:
    """The shape of an ask; asks of equal shape differ only in their order."""
    items = tuple(ask.resource.items())
    if len(items) > 1:
        items = tuple(sorted(items))
    if not ask.tags and not ask.failures:
        return items, None, (), ""
    required = next((NodeID(ask.tags[tag]) for tag in REQUIRED_NODE_TAGS if ask.tags.get(tag)), None)
    selected = selector.parse(ask.tags.get(selector.TAG, ""))
    nodes = left_out(ask) if ask.failures else ()
    return items, required, selector.without(selected, nodes) if nodes else selected, ask.tags.get(PREDICATE_TAG, "")


def order_of(ask: Ask) -> tuple[int, int, int]:
    """The sort key of an ask: higher priority, then older, then earlier arrival (PR-50 to PR-52)."""
    return -ask.priority, ask.created_ns, ask.arrival


def mistake_in(ask: Ask) -> Rejection | None:
    """The reason why an ask cannot be taken, or None (AP-105 to AP-107)."""
    is_empty = True
    for quantity in ask.resource.values():
        if quantity < 0:
            return Rejection(RejectionCode.NEGATIVE_RESOURCES, NEGATIVE_RESOURCES)
        if quantity:
            is_empty = False
    if is_empty:
        return Rejection(RejectionCode.NO_RESOURCES, "allocation contains no resources")
    if ask.placeholder and not ask.task_group_name:
        return Rejection(RejectionCode.NO_TASK_GROUP, "placeholder without task group")
    wrong = _mistake_in_tags(ask) if ask.tags else ""
    return Rejection(RejectionCode.BAD_TAG, wrong) if wrong else None


def _mistake_in_tags(ask: Ask) -> str:
    if len(ask.tags.get(PREDICATE_TAG, "")) > PREDICATE_CLASS_MAX:
        return f"tag {PREDICATE_TAG}: found {len(ask.tags[PREDICATE_TAG])} characters, expected at most {PREDICATE_CLASS_MAX}"
    try:
        names = selector.names_in(selector.parse(ask.tags.get(selector.TAG, "")))
    except selector.SelectorError as error:
        return f"tag {selector.TAG}: {error}"
    limit = selector.NAMES_MAX
    return f"tag {selector.TAG}: found {names} keys and values, expected at most {limit}" if names > limit else ""
