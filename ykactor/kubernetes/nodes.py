"""Nodes as the daemon knows them: what they offer, their attributes, and whether asks may be placed there."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ykactor.kubernetes import quantities
from ykactor.kubernetes.model import Node, Taint
from ykactor.wire.si import messages as si

_HOSTNAME = "kubernetes.io/hostname"
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
#: The attribute that names the type of instance, by which the use of applications is counted (AP-90).
_SI_INSTANCE_TYPE = "si/instance-type"


class Offer(Struct, frozen=True):
    """The part of a node that the daemon is told; heartbeats do not change it.

    Attributes:
        amounts: what pods may use, in base units.
        attributes: the labels of the node, its host name, and its type of instance.
        is_open: False for a node that was cordoned.
    """

    amounts: dict[str, int]
    attributes: dict[str, str]
    is_open: bool


def offer_of(node: Node, volumes: Mapping[str, int]) -> Offer:
    """Raises ``QuantityError`` if the node offers what cannot be read.

    Args:
        volumes: how many it takes, by the names of resources.
    """
    labels = node.metadata.labels
    attributes = {_HOSTNAME: node.metadata.name, **labels}
    if _INSTANCE_TYPE in labels:
        attributes[_SI_INSTANCE_TYPE] = labels[_INSTANCE_TYPE]
    amounts = {**quantities.amounts(node.status.allocatable, up=False), **volumes}
    amounts = {name: amount for name, amount in amounts.items() if amount}
    return Offer(amounts, attributes, not node.spec.unschedulable)


def is_heartbeat(before: Node, after: Node) -> bool:
    """True if nothing has changed in a node that anybody is told. Compares before anything is computed: most events are such."""
    return (
        before.spec == after.spec
        and before.status == after.status
        and before.metadata.labels == after.metadata.labels
        and before.metadata.uid == after.metadata.uid
    )


def taints_of(node: Node) -> tuple[Taint, ...]:
    """The taints that keep pods away which do not tolerate them."""
    return tuple(taint for taint in node.spec.taints if taint.effect in ("NoSchedule", "NoExecute"))


def created(name: str, offer: Offer) -> si.NodeInfo:
    """A new node without capacity. That it is drained would not be enough: an ask that requires it may run there (SC-72)."""
    return si.NodeInfo(node_id=name, action="CREATE_DRAIN", attributes=offer.attributes)


def filled(name: str, offer: Offer) -> si.NodeInfo:
    """The entry that gives a node its capacity, when its pods are known."""
    return si.NodeInfo(node_id=name, action="UPDATE", schedulable_resource=dict(offer.amounts))


def changes(name: str, before: Offer, after: Offer) -> list[si.NodeInfo]:
    """The entries that tell the daemon how an offer has changed; none if it has not."""
    entries = []
    if (before.amounts, before.attributes) != (after.amounts, after.attributes):
        attributes = after.attributes if after.attributes != before.attributes else {}
        amounts = dict(after.amounts) if after.amounts != before.amounts else None
        entries.append(si.NodeInfo(node_id=name, action="UPDATE", attributes=attributes, schedulable_resource=amounts))
    if before.is_open is not after.is_open:
        entries.append(opening(name, is_open=after.is_open))
    return entries


def opening(name: str, *, is_open: bool) -> si.NodeInfo:
    """Asks may be placed on the node from now on, or no longer."""
    return si.NodeInfo(node_id=name, action="DRAIN_TO_SCHEDULABLE" if is_open else "DRAIN_NODE")


def removed(name: str) -> si.NodeInfo:
    """The node is gone with all that ran there."""
    return si.NodeInfo(node_id=name, action="DECOMISSION")
