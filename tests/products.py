"""Collections of messages that are multiplied by each other: the costs of partitions, one collection larger, another, or both.

A *story* is what a resource manager sends to a new partition, with a configuration. Each field of ``Story`` is an *axis*: how
many items a collection of a message has. The bytes of all messages are a sum over the axes, so the costs should be one too.
What two axes cost together, beyond what each costs alone, is their product: ``products`` finds it for every pair.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import msgspec
from costs import Calls
from msgspec import Struct, inspect, structs

from ykactor.core.inspection.snapshot import partition_state
from ykactor.core.messages.planned import Budget
from ykactor.core.records.base import encode_base
from ykactor.core.values.parts import finished
from ykactor.core.values.quantities import MAX_TAG
from ykactor.core.values.selector import TAG
from ykactor.sim.direct import DirectPartition
from ykactor.surfaces.metrics.exposition import Exposition
from ykactor.surfaces.metrics.fact_counts import FactCounts
from ykactor.surfaces.metrics.reading import read
from ykactor.surfaces.metrics.yunikorn import add_queues, add_scheduler
from ykactor.wire import queuefile
from ykactor.wire.queuefile.schema import FileText
from ykactor.wire.si import messages as si
from ykactor.wire.si import requests

S_NS = 10**9


class Story(Struct, frozen=True):
    """The number of items of each collection."""

    nodes: int = 1
    attributes: int = 0
    node_types: int = 0
    applications: int = 1
    groups: int = 0
    tags: int = 0
    gang_types: int = 0
    quota_types: int = 0
    queues: int = 0
    levels: int = 0
    removals: int = 0
    records: int = 0
    asks: int = 1
    ask_types: int = 0
    ask_tags: int = 0
    shapes: int = 0
    selectors: int = 0
    requirements: int = 0
    predicates: int = 0
    task_groups: int = 0
    running: int = 0
    foreign: int = 0
    releases: int = 0
    answers: int = 0
    forgotten: int = 0
    leaves: int = 0
    max_types: int = 0
    guaranteed_types: int = 0
    template_types: int = 0
    template_properties: int = 0
    properties: int = 0
    limits: int = 0
    limited_users: int = 0
    limited_groups: int = 0
    limited_types: int = 0
    submitters: int = 0
    rules: int = 0
    filtered: int = 0
    weights: int = 0


AXES = Story.__struct_fields__
#: The axis of each list and mapping that a resource manager may send, or write into the queue file.
AXIS_OF = {
    "NodeRequest.nodes": "nodes",
    "NodeRequest.nodes.attributes": "attributes",
    "NodeRequest.nodes.schedulableResource": "node_types",
    "ApplicationRequest.new": "applications",
    "ApplicationRequest.new.ugi.groups": "groups",
    "ApplicationRequest.new.tags": "tags",
    "ApplicationRequest.new.placeholderAsk": "gang_types",
    "SetQueueQuotas.tags": "quota_types",
    "ApplicationRequest.remove": "removals",
    "ApplicationRequest.records": "records",
    "ApplicationRequest.jobs": "applications",
    "AllocationRequest.allocations": "asks",
    "AllocationRequest.allocations.resourcePerAlloc": "ask_types",
    "AllocationRequest.allocations.allocationTags": "ask_tags",
    "AllocationRequest.releases.allocationsToRelease": "releases",
    "PredicatesResponse.answers": "answers",
    "PredicatesResponse.forget": "forgotten",
    "partitions.queues.queues": "leaves",
    "partitions.queues.resources.max": "max_types",
    "partitions.queues.resources.guaranteed": "guaranteed_types",
    "partitions.queues.childtemplate.resources.max": "template_types",
    "partitions.queues.childtemplate.properties": "template_properties",
    "partitions.queues.properties": "properties",
    "partitions.queues.limits": "limits",
    "partitions.queues.limits.users": "limited_users",
    "partitions.queues.limits.groups": "limited_groups",
    "partitions.queues.limits.maxresources": "limited_types",
    "partitions.placementrules": "rules",
    "partitions.placementrules.filter.groups": "filtered",
    "partitions.nodesortpolicy.resourceweights": "weights",
    "partitions.limits": "limits",
    "partitions.limits.users": "limited_users",
    "partitions.limits.groups": "limited_groups",
    "partitions.limits.maxresources": "limited_types",
    "partitions.queues": "leaves",
    "partitions.queues.childtemplate.resources.guaranteed": "template_types",
    "partitions.placementrules.filter.users": "filtered",
}
#: Those of which nothing is kept, and that nothing is compared with but once; and partitions, which share nothing.
ALONE = frozenset(
    (
        "UpdateConfigurationRequest.extraConfig",
        "TerminateApplication.ugi.groups",
        "MoveApplication.ugi.groups",
        "partitions",
    )
)


def _many(count: int, name: str) -> list[str]:
    return [f"{name}{number}" for number in range(count)]


def _amounts(count: int, name: str, quantity: int = 1) -> dict[str, Any]:
    return dict.fromkeys(_many(count, name), quantity)


# ---- the messages


def config(story: Story) -> dict[str, Any]:
    """The queue file."""
    first: dict[str, Any] = {"name": "a", "parent": True, "properties": dict.fromkeys(_many(story.properties, "x.p"), "1")}
    first["queues"] = [{"name": name} for name in ("leaf", *_many(story.leaves, "l"))]
    first["resources"] = {
        "max": dict.fromkeys(_many(story.max_types, "max"), "9000"),
        "guaranteed": dict.fromkeys(_many(story.guaranteed_types, "min"), "1"),
    }
    first["childtemplate"] = {
        "properties": dict.fromkeys(_many(story.template_properties, "y.p"), "1"),
        "resources": {"max": dict.fromkeys(_many(story.template_types, "tmp"), "9")},
    }
    limits = [{"limit": "", "groups": [name], "maxapplications": 9000} for name in _many(story.limits, "lg")]
    limited = {"users": ["bob", *_many(story.limited_users, "lu")], "groups": ["devs", *_many(story.limited_groups, "lr")]}
    limits.append(limited | {"maxresources": {"vcore": "9000", **dict.fromkeys(_many(story.limited_types, "lt"), "9")}})
    rules: list[dict[str, Any]] = [{"name": "tag", "value": f"no{number}"} for number in range(story.rules)]
    rules.append(
        {"name": "provided", "create": True, "filter": {"type": "deny", "groups": ["x", "y", *_many(story.filtered, "f")]}}
    )
    root = {
        "name": "root",
        "submitacl": ",".join(["bob", *_many(story.submitters, "s")]) + " devs",
        "limits": limits,
        "queues": [first],
    }
    weights = {"vcore": 1.0, **dict.fromkeys(_many(story.weights, "w"), 1.0)}
    partition = {"name": "default", "nodesortpolicy": {"type": "fair", "resourceweights": weights}}
    return {"partitions": [partition | {"placementrules": rules, "queues": [root]}]}


def messages(story: Story) -> Iterator[requests.PartitionRequest]:
    """The messages of the resource manager, in order."""
    yield si.NodeRequest(nodes=_nodes(story))
    yield si.ApplicationRequest(new=_applications(story))
    yield si.AllocationRequest(allocations=_allocations(story))
    released = [
        si.AllocationRelease(application_id="app0", allocation_key=key, termination_type="STOPPED_BY_RM")
        for key in _many(story.releases, "a")
    ]
    yield si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=released))
    yield si.PredicatesResponse(
        answers=[si.PredicateAnswer(predicate=f"class{number}", node_id="n0", allocate=True) for number in range(story.answers)],
        forget=[si.PredicateScope(predicate=f"old{number}", node_id="n0") for number in range(story.forgotten)],
    )
    yield si.ApplicationRequest(
        jobs=[si.JobReport(application_id=f"app{number}", name="job", tasks=1) for number in range(story.applications)],
        records=[
            si.TaskRecord(application_id="app0", allocation_key=key, state="Completed") for key in _many(story.records, "ended")
        ],
        remove=[si.RemoveApplicationRequest(application_id=name) for name in _many(story.removals, "gone")],
    )


def _nodes(story: Story) -> list[si.NodeInfo]:
    plain = {"vcore": 4000, "memory": 2**30}
    return [
        si.NodeInfo(
            node_id=f"n{number}",
            action="CREATE",
            schedulable_resource=plain if number else plain | _amounts(story.node_types, "nt", 9),
            attributes={} if number else dict.fromkeys(_many(story.attributes, "at"), "v"),
        )
        for number in range(story.nodes)
    ]


def _applications(story: Story) -> list[si.AddApplicationRequest]:
    leaf = "root.a.leaf"
    queues = [leaf] * story.applications + [f"root.a.{name}" for name in _many(story.queues, "q")]
    bob = si.UserGroupInformation(user="bob", groups=["devs"])
    quota = msgspec.json.encode(
        {"resources": {name: {"value": 9} for name in ("vcore", *_many(story.quota_types, "qt"))}}
    ).decode()
    return [
        si.AddApplicationRequest(
            application_id=f"app{number}",
            queue_name=queue,
            ugi=bob if number else si.UserGroupInformation(user="bob", groups=["devs", *_many(story.groups, "g")]),
            tags={} if number else dict.fromkeys(_many(story.tags, "t"), "v"),
        )
        for number, queue in enumerate(queues)
    ] + [
        *(si.AddApplicationRequest(application_id=name, queue_name=leaf, ugi=bob) for name in _many(story.removals, "gone")),
        si.AddApplicationRequest(
            application_id="gang", queue_name=leaf, ugi=bob, placeholder_ask=_amounts(1 + story.gang_types, "gt")
        ),
        si.AddApplicationRequest(application_id="quota", queue_name="root.a.quota", ugi=bob, tags={MAX_TAG: quota}),
        si.AddApplicationRequest(application_id="deep", queue_name=".".join(["root.a.d", *_many(story.levels, "v")]), ugi=bob),
    ]


def _allocations(story: Story) -> list[si.Allocation]:
    one = {"vcore": 1}

    def ask(key: str, resource: dict[str, Any], tags: dict[str, str], **fields: Any) -> si.Allocation:
        return si.Allocation(
            **{"allocation_key": key, "application_id": "app0", "resource_per_alloc": resource, "allocation_tags": tags} | fields
        )

    wanted = [f"k{number} notin (v)" for number in range(story.requirements)]
    return [
        *(ask(name, one, {}) for name in _many(story.asks, "a")),
        ask("types", one | _amounts(story.ask_types, "as"), {}),
        ask("tags", one, dict.fromkeys(_many(story.ask_tags, "t"), "v")),
        ask("wanted", one, {TAG: ",".join(wanted)}),
        ask("deep", one, {}, application_id="deep"),
        *(ask(f"size{number}", {"vcore": 5000 + number}, {}) for number in range(story.shapes)),
        *(ask(f"sel{number}", one, {TAG: f"zone=z{number}"}) for number in range(story.selectors)),
        *(ask(f"pred{number}", one, {"ykactor.io/predicate": f"class{number}"}) for number in range(story.predicates)),
        *(
            ask(f"p{number}", one, {}, application_id="gang", placeholder=True, task_group_name=f"group{number}")
            for number in range(story.task_groups)
        ),
        *(ask(name, one, {}, node_id="n0") for name in _many(story.running, "r")),
        *(ask(name, one, {"foreign": "default"}, application_id="", node_id="n0") for name in _many(story.foreign, "f")),
        *(ask("t", one, {}, application_id=f"app{story.applications + number}") for number in range(story.queues)),
    ]


def size_of(story: Story) -> int:
    """The bytes of all messages."""
    encode = msgspec.json.encode
    return len(encode(config(story))) + sum(len(encode(message)) for message in messages(story))


# ---- the costs


class Cost(NamedTuple):
    """The cost of a story.

    Attributes:
        held: bytes of memory that the partition keeps.
        calls: functions that were called until nothing is left to decide, and to read all of it.
        snapshot, rows, metrics: bytes that are read.
    """

    held: int
    calls: int
    snapshot: int
    rows: int
    metrics: int


def cost(story: Story, counting: Callable[[], AbstractContextManager[Any]]) -> Cost:
    """Play a story to a new partition, and read all of it."""
    text = msgspec.json.encode(config(story)).decode()
    with counting() as calls:
        loaded = queuefile.load(text).partitions[0]
        partition = DirectPartition(loaded, Budget(256, 40_000), lambda _: None, now_ns=S_NS, confirms=False)
        submitted = [requests.submissions(message) for message in messages(story)]
        for second, routed in enumerate(submitted):
            for entries in routed.values():
                partition.intake((1 + second) * S_NS, entries)
        partition.advance(60 * S_NS)
        partition.core.begin_turn()
        core, state = partition.core, partition.scheduler.state
        snapshot = msgspec.json.encode(finished(partition_state(core, state)))
        rows = finished(encode_base(core, partition.scheduler.state))
        exposition, counts, figures = Exposition(), FactCounts([core.name]), [finished(read(core, state))]
        add_scheduler(exposition, figures, counts, [])
        finished(add_queues(exposition, figures, counts))
        metrics = sum(map(len, finished(exposition.encoded())))
    return Cost(size_held(partition), calls.count if calls else 0, len(snapshot), len(rows), metrics)


def size_held(root: object) -> int:
    """The bytes of an object and of all that it refers to, without the code and the variables of modules.

    Memory of the whole process says something else: its tables, as that of interned strings, grow at any moment.
    """
    size, seen, left = 0, set[int](), [root]
    while left:
        found = left.pop()
        if id(found) not in seen and not isinstance(found, type | ModuleType):
            seen.add(id(found))
            size += sys.getsizeof(found)
            left += _referents(found)
    return size


def _referents(found: object) -> Iterable[object]:
    if isinstance(found, Struct):  # those that the collector leaves alone tell it nothing
        return (getattr(found, name) for name in found.__struct_fields__)
    if isinstance(found, FunctionType):
        return (found.__closure__, found.__defaults__)
    return gc.get_referents(found)


class Product(NamedTuple):
    """The cost of two axes for each pair of their items, beyond what each costs alone."""

    axes: tuple[str, str]
    cost: str
    each: float


_TYPES = {"max_types", "guaranteed_types", "template_types", "node_types"}
#: Products that something else bounds: what one of these axes and one of those cost together, in which costs, and the bound.
BOUNDED: list[tuple[set[str], set[str], set[str], str]] = [
    ({"nodes"}, {"predicates"}, {"held", "rows", "calls"}, "200,000 answers"),
    ({"nodes"}, {"shapes", "selectors", "requirements"}, {"calls"}, "the work of a plan"),
    ({"applications", "queues", "removals"}, {"rules"}, {"calls"}, "rules are tried in order, with pauses"),
    ({"queues", "levels", "leaves"}, _TYPES, {"snapshot", "metrics", "rows", "calls"}, "256 types"),
    ({"shapes"}, {"max_types", "node_types"}, {"calls"}, "256 types"),
    ({"limited_users", "limited_groups"}, {"limited_types"}, {"calls"}, "256 types"),
    ({"leaves", "queues"}, {"properties", "template_properties"}, {"rows"}, "64 properties"),
]


def is_bounded(pair: tuple[str, str], name: str) -> bool:
    """True if the product of two axes in this cost is bounded by something else."""
    axes = set(pair)
    return any(name in costs and axes & some and axes & others for some, others, costs, _ in BOUNDED)


#: Less than this for each pair of items is no product: what does not grow with the number of pairs looks like so much.
LEAST = Cost(held=24, calls=0.5, snapshot=2, rows=2, metrics=2)


def products(pairs: Iterable[tuple[str, str]], count: int, *, counts_calls: bool) -> Iterator[Product]:
    """The costs that grow with the product of two axes: with twice as many items of both, more than three times as much."""
    costs = _Costs(count, Calls if counts_calls else nullcontext)
    for pair in pairs:
        few, many = costs.together(1, *pair), costs.together(2, *pair)
        for name, least in zip(Cost._fields, LEAST, strict=True):
            before, after = getattr(few, name), getattr(many, name)
            if not is_bounded(pair, name) and after > 3 * before and after > least * (2 * count) ** 2:
                yield Product(pair, name, after / (2 * count) ** 2)


class _Costs:
    """The costs of stories, each of which is played once."""

    def __init__(self, count: int, counting: Callable[[], AbstractContextManager[Any]]) -> None:
        cost(_larger(count, *AXES), counting)  # fills what is remembered for all partitions
        self._count, self._counting = count, counting
        self._known: dict[Story, Cost] = {}

    def together(self, times: int, *pair: str) -> Cost:
        """The cost of two axes together beyond the sum of what each costs alone."""
        both, left, right, neither = (self._of(times, *axes) for axes in (pair, pair[:1], pair[1:], ()))
        return Cost(*(a - b - c + d for a, b, c, d in zip(both, left, right, neither, strict=True)))

    def _of(self, times: int, *axes: str) -> Cost:
        story = _larger(times * self._count, *axes)
        if story not in self._known:
            self._known[story] = cost(story, self._counting)
        return self._known[story]


def _larger(count: int, *axes: str) -> Story:
    return structs.replace(Story(), **{axis: getattr(Story(), axis) + count for axis in axes})


# ---- what messages have


def collections(kind: inspect.Type, path: str, within: tuple[type, ...] = ()) -> Iterator[str]:
    """The paths of all lists and mappings in a message, by their names on the wire; structs in themselves once."""
    match kind:
        case inspect.StructType(cls=struct, fields=fields) if struct not in within:
            for field in fields:
                yield from collections(field.type, f"{path}.{field.encode_name}".lstrip("."), (*within, struct))
        case inspect.ListType(item_type=item) | inspect.CollectionType(item_type=item):
            yield path
            yield from collections(item, path, within)
        case inspect.DictType():
            yield path
        case inspect.UnionType(types=types):
            for each in types:
                yield from collections(each, path, within)
        case inspect.Metadata(type=inner):
            yield from collections(inner, path, within)


def schema() -> set[str]:
    """The paths of all lists and mappings that a resource manager may send, or write into the queue file."""
    work = inspect.type_info(si.WorkRequest)
    assert isinstance(work, inspect.UnionType)
    found = {each for kind in work.types if isinstance(kind, inspect.StructType) for each in collections(kind, kind.cls.__name__)}
    return found | set(collections(inspect.type_info(FileText), ""))
