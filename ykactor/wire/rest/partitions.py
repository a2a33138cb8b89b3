"""Partitions as the REST API shows them: the names of Apache YuniKorn, and what each is made of (``types``)."""

from __future__ import annotations

from collections import Counter

from msgspec import UNSET, UnsetType, structs

from ykactor.core.config.model import PartitionConfig, PlacementFilter
from ykactor.core.config.model import PlacementRule as Rule
from ykactor.core.inspection.partition_status import NodeTotals, PartitionTotals
from ykactor.core.placement.rules import RECOVERY_QUEUE, RULES
from ykactor.core.values.resources import Resource, saturated_and_pruned
from ykactor.wire.rest.applications import state_name
from ykactor.wire.rest.types import Payload, Percent, percent


class Capacity(Payload, frozen=True, kw_only=True):
    """The nodes of a partition together, what is allocated there, and both compared."""

    capacity: Resource = {}
    used_capacity: Resource = {}
    utilization: Percent = {}


class NodeSorting(Payload, frozen=True, kw_only=True):
    """The order of nodes: ``fair`` or ``binpacking``."""

    type: str | UnsetType = UNSET
    resource_weights: dict[str, float] | UnsetType = UNSET


class Partition(Payload, frozen=True, kw_only=True):
    """A partition.

    Attributes:
        cluster_id: the resource manager.
        applications: by state, those that occur; and their ``total``. Ended and rejected ones count.
        total_containers: allocations, also of placeholders.
        state: ``Active``, or ``Stopped`` after too many failures.
        last_state_transition_time: when this daemon has started it, or has stopped it.
    """

    cluster_id: str
    name: str
    capacity: Capacity
    node_sorting_policy: NodeSorting
    preemption_enabled: bool | UnsetType = UNSET
    quota_preemption_enabled: bool | UnsetType = UNSET
    total_nodes: int | UnsetType = UNSET
    applications: dict[str, int]
    total_containers: int
    state: str
    last_state_transition_time: int | UnsetType = UNSET


class RuleFilter(Payload, frozen=True, kw_only=True):
    """The users and groups for which a rule is tried: ``allow`` or ``deny``."""

    type: str
    user_list: list[str] = []
    group_list: list[str] = []
    user_exp: str = ""
    group_exp: str = ""


class PlacementRule(Payload, frozen=True, kw_only=True):
    """A placement rule; the values of ``parameters`` are texts, also ``true`` and ``false``."""

    name: str
    parameters: dict[str, str] = {}
    filter: RuleFilter | None = None
    parent_rule: PlacementRule | None = None


#: Without rules an application names its queue, which must be there (PL-2).
_DEFAULT_RULE = PlacementRule(name="provided", parameters={"create": "false"})
_RECOVERY_RULE = PlacementRule(name="recovery", parameters={"queue": RECOVERY_QUEUE})


def partition(totals: PartitionTotals, config: PartitionConfig, cluster_id: str, state: str, since_ns: int) -> Partition:
    """A partition that has its state since a Unix time; a limited reader sees nothing of its nodes and its configuration."""
    applications: Counter[str] = Counter()
    for name, count in totals.applications.items():
        applications[state_name(name)] += count
    found = Partition(
        cluster_id=cluster_id,
        name=totals.name,
        capacity=Capacity(),
        node_sorting_policy=NodeSorting(),
        applications={**dict(sorted(applications.items())), "total": applications.total()},
        total_containers=totals.allocations,
        state=state,
    )
    return found if totals.nodes is UNSET else _with_nodes(found, totals.nodes, config, since_ns)


def _with_nodes(partition: Partition, nodes: NodeTotals, config: PartitionConfig, since_ns: int) -> Partition:
    total, allocated, sorting = nodes.capacity, nodes.allocated, config.node_sort_policy
    return structs.replace(
        partition,
        capacity=Capacity(
            capacity=saturated_and_pruned(total),
            used_capacity=saturated_and_pruned(allocated),
            utilization=percent(allocated, total),
        ),
        node_sorting_policy=NodeSorting(type=sorting.type, resource_weights=sorting.resource_weights),
        preemption_enabled=config.preemption.enabled,
        quota_preemption_enabled=config.preemption.quota_enabled,
        total_nodes=nodes.count,
        last_state_transition_time=since_ns,
    )


def placement_rules(config: PartitionConfig) -> list[PlacementRule]:
    """The rules in the order in which they are tried."""
    rules = [*map(_rule, config.placement_rules)] or [_DEFAULT_RULE]
    return [*rules, _RECOVERY_RULE]


def _rule(rule: Rule) -> PlacementRule:
    parameters = {"create": "true" if rule.create else "false"}
    if parameter := RULES[rule.name].parameter:
        parameters[parameter] = rule.value
    if rule.name == "fixed":
        parameters["qualified"] = "true" if rule.value.startswith("root") else "false"
    return PlacementRule(
        name=rule.name,
        parameters=parameters,
        filter=_filter(rule.filter),
        parent_rule=None if rule.parent is None else _rule(rule.parent),
    )


def _filter(found: PlacementFilter) -> RuleFilter | None:
    if not (found.users.listed or found.groups.listed):
        return None
    return RuleFilter(
        type="allow" if found.allow else "deny",
        user_list=sorted(found.users.names),
        group_list=sorted(found.groups.names),
        user_exp=found.users.expression,
        group_exp=found.groups.expression,
    )
