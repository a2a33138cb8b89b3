"""``ykactor story``: what happened to one thing and why, in order, and how it is now.

The events come from the daemon's memory (its newest ones), the present state and the reasons for waiting from a snapshot.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import click
import trio

from ykactor.client import Disconnected, RequestRefused, follow
from ykactor.surfaces.cli.follow import as_text, quantity_text, time_text
from ykactor.wire.si import messages as si


@click.command()
@click.argument("key")
@click.option("--url", default="ws://127.0.0.1:9081", show_default=True)
def command(key: str, url: str) -> None:
    """Tell what happened to KEY, which is an application, an ask or allocation, a node, a queue, a user or a group.

    Prints the events about it that the daemon still has, oldest first, and then what it is now: state, usage, and for what waits
    the reason. An ask is told when quotas have no room for it, and when they have again. Exits 1 if nothing is known of KEY.
    """
    try:
        lines = trio.run(_collect, key, url)
    except* (Disconnected, RequestRefused, ValueError) as errors:
        raise click.ClickException(str(errors.exceptions[0])) from None
    for line in lines:
        click.echo(line)
    if not lines:
        raise click.ClickException(f"nothing is known of {key}: no event in the daemon's memory, no part of its state")


async def _collect(key: str, url: str) -> list[str]:
    async with follow(url, from_="snapshot") as messages:
        snapshot = await anext(messages)
    assert isinstance(snapshot, si.Snapshot), "asked for"
    told = [line async for line in _events_about(key, url, snapshot)]
    now = [line for partition in snapshot.partitions for line in present(key, partition)]
    return told + now


async def _events_about(key: str, url: str, snapshot: si.Snapshot) -> AsyncIterator[str]:
    """A line for each event up to the snapshot that names ``key``."""
    if not snapshot.sequence:
        return
    async with follow(url, from_=0, instance=snapshot.instance) as messages:
        async for message in messages:
            if isinstance(message, si.Lagged):
                yield f"events {message.from_} to {message.to} are no longer in memory"
                reached = message.to
            elif isinstance(message, si.EventRecord):
                if is_about(message, key):
                    yield as_text(message)
                reached = message.sequence
            if reached >= snapshot.sequence:
                return


def is_about(event: si.EventRecord, key: str) -> bool:
    """Whether the event names ``key`` as its object or reference, or happened in the queue ``key`` or below it.

    A preemption also happened to its victims, their applications and queues, and on its node.
    """
    if key in (event.object_id, event.reference_id) or _is_in(event.queue_name, key):
        return True
    entry = event.preemption
    return entry is not None and (
        key == entry.node_id
        or any(key in (it.allocation_key, it.application_id) or _is_in(it.queue_name, key) for it in entry.victims)
    )


def _is_in(path: str, queue: str) -> bool:
    return path == queue or path.startswith(f"{queue}.")


# ---- the present


def present(key: str, partition: dict[str, Any]) -> Iterator[str]:
    """What a partition's state says of ``key``, in sentences."""
    yield from _application(key, partition["applications"])
    if key in partition["nodes"]:
        node = partition["nodes"][key]
        flag = "schedulable" if node["schedulable"] else "takes nothing new"
        yield f"now: node {key}, {flag}, uses {_text(node['allocated'])} of {_text(node['capacity'])}"
        yield from (f"now: runs {allocation}" for allocation in node["allocations"])
    if key in partition["queues"]:
        queue = partition["queues"][key]
        room = "no limit" if queue["headroom"] is None else _text(queue["headroom"])
        yield f"now: queue {key} {queue['state']}, uses {_text(queue['allocated'])}, has room for {room}"
        yield from _waiting_in(key, partition["applications"])
    for limit in partition["limits"]:
        if limit["whose"] in (f"user {key}", f"group {key}"):
            bound = "no limit of resources" if limit["max"] is None else _text(limit["max"])
            yield f"now: {limit['whose']} uses {_text(limit['allocated'])} of {bound} in queue {limit['queue']}"
    for node_id, node in partition["nodes"].items():
        if key in node["allocations"]:
            yield f"now: {key} runs on {node_id}"


def _application(key: str, applications: dict[str, Any]) -> Iterator[str]:
    for name, application in applications.items():
        if key == name:
            yield f"now: application {name} is {application['state']} in {application['queueName'] or 'no queue'}"
        for group in application.get("pending", ()):
            if key == name or key in group["allocationKeys"]:
                examples = ", ".join(group["allocationKeys"])
                why = _reason(group)
                yield f"now: {group['count']} waiting, each {_text(group['resource'])} ({examples}): {why}"


def _waiting_in(path: str, applications: dict[str, Any]) -> Iterator[str]:
    for name, application in applications.items():
        if application["queueName"] == path or application["queueName"].startswith(f"{path}."):
            for group in application.get("pending", ()):
                yield f"now: {group['count']} of {name} waiting, each {_text(group['resource'])}: {_reason(group)}"


def _reason(group: dict[str, Any]) -> str:
    """Why asks wait, and when the first of them tried to preempt and may do so next."""
    next_ns = group.get("nextAttempt")
    if next_ns is None:
        return str(group["reason"])
    tried = "" if group["lastAttempt"] is None else f"tried to preempt at {time_text(group['lastAttempt'])}, "
    return f"{group['reason']}; {tried}may preempt from {time_text(next_ns)} on"


def _text(resource: dict[str, int]) -> str:
    return ", ".join(f"{name} {quantity_text(name, value)}" for name, value in sorted(resource.items())) or "nothing"
