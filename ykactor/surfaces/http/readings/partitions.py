"""Partitions and their placement rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import structs

from ykactor.actors.standing import Standing
from ykactor.core.config.model import NameFilter, PlacementFilter, PlacementRule
from ykactor.core.messages.states import ApplicationState
from ykactor.core.placement.rules import RECOVERY_QUEUE
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Pace, Pausing
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import types
from ykactor.wire.rest.amounts import percent, used

#: Without rules an application names its queue, which must be there (PL-2).
_DEFAULT_RULE = types.PlacementRule(name="provided", parameters={"create": "false"})
_RECOVERY_RULE = types.PlacementRule(name="recovery", parameters={"queue": RECOVERY_QUEUE})


def summary(look: Look, cluster_id: str, standing: Callable[[PartitionName], Standing]) -> Pausing[types.Partition]:
    """A partition with its totals; to a limited reader only those of the applications in view."""
    registry, own = look.core.registry, standing(look.core.name)
    states: Counter[str] = Counter()
    containers, pace = 0, Pace()
    for leaf_path in filter(look.shows, dict.fromkeys(registry.applications.values())):
        for application in registry.leaf(leaf_path).applications.values():
            states[_shown(application.state)] += 1
            containers += len(application.allocations)
            if pace.is_due():
                yield ()
    states.update(entry.state.value for entry in look.core.timers.ended.values() if look.shows(entry.queue))
    if look.shows(""):
        states.update(entry.state.value for entry in look.core.timers.rejected.values())
    in_view = types.Partition(
        cluster_id=cluster_id,
        name=look.core.name,
        capacity=types.Capacity(),
        node_sorting_policy=types.NodeSorting(),
        applications={**dict(sorted(states.items())), "total": states.total()},
        total_containers=containers,
        state=own.state.value,
    )
    return _with_totals(look, in_view, own.since_ns) if look.shows("") else in_view


def _with_totals(look: Look, partition: types.Partition, since_ns: int) -> types.Partition:
    """With what is in no queue: its nodes, its configuration, and since when it has its state."""
    config, allocated, total = look.core.registry.config, look.state.tree.root.allocated, look.state.tree.root_max or {}
    sorting = config.node_sort_policy
    return structs.replace(
        partition,
        capacity=types.Capacity(capacity=used(total), used_capacity=used(allocated), utilization=percent(allocated, total)),
        node_sorting_policy=types.NodeSorting(type=sorting.type, resource_weights=sorting.resource_weights),
        preemption_enabled=config.preemption.enabled,
        quota_preemption_enabled=config.preemption.quota_enabled,
        total_nodes=len(look.core.registry.nodes),
        last_state_transition_time=since_ns,
    )


def _shown(state: ApplicationState) -> str:
    return ApplicationState.RUNNING.value if state is ApplicationState.STARTING else state.value


def placement_rules(look: Look) -> list[types.PlacementRule]:
    """The rules in the order in which they are tried."""
    rules = [*map(_rule, look.core.registry.config.placement_rules)] or [_DEFAULT_RULE]
    return [*rules, _RECOVERY_RULE]


def _rule(rule: PlacementRule) -> types.PlacementRule:
    parameters = {"create": "true" if rule.create else "false"}
    if rule.name == "tag":
        parameters["tagName"] = rule.value
    if rule.name == "fixed":
        parameters |= {"queue": rule.value, "qualified": "true" if rule.value.startswith("root") else "false"}
    return types.PlacementRule(
        name=rule.name,
        parameters=parameters,
        filter=_filter(rule.filter),
        parent_rule=None if rule.parent is None else _rule(rule.parent),
    )


def _filter(found: PlacementFilter) -> types.RuleFilter | None:
    if not (found.users.listed or found.groups.listed):
        return None
    return types.RuleFilter(
        type="allow" if found.allow else "deny",
        user_list=_names(found.users),
        group_list=_names(found.groups),
        user_exp=found.users.expression,
        group_exp=found.groups.expression,
    )


def _names(found: NameFilter) -> list[str]:
    names: Iterable[str] = found.names
    return sorted(names)
