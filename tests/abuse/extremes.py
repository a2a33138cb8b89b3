"""Right requests with the largest, smallest, longest and deepest of everything (AP-138), to a daemon with a journal."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import trio
from target import Target

from ykactor.client import Refused, RequestRefused, ResourceManager, connect
from ykactor.core.inspection.invariants import violations
from ykactor.journal.reading import Reader
from ykactor.surfaces.cli.replay import replayed
from ykactor.surfaces.files.recovery import recover
from ykactor.wire.si import messages as si
from ykactor.wire.si.lengths import ENTRIES_MAX, ITEMS_BYTES_MAX, ITEMS_MAX, TEXT_MAX

#: Applications say in which queue they want to be, and it is made.
CONFIG = """
partitions:
  - name: default
    placementrules: [{name: provided, create: true}]
    queues:
      - name: root
        submitacl: '*'
        queues: [{name: limited, parent: true, resources: {max: {memory: 9223372036854775807}}}]
"""
_HUGE = 2**63 - 1
_AMOUNTS = (0, 1, -1, 1000, _HUGE, _HUGE - 1, -_HUGE - 1)
_LEVELS = (1, 2, 30, 127)


class Extremes:
    """Draws requests."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._names = [f"{number:02}" + "x" * size for number, size in enumerate((0, 10, TEXT_MAX - 2, TEXT_MAX - 2, 1, 62))]
        self._counts: Counter[str] = Counter()

    def draw(self) -> si.Request:
        """One request; it may be refused, or its entries rejected."""
        draws = (self._nodes, self._applications, self._asks, self._asks, self._asks, self._releases, self._administration)
        return self._rng.choice(draws)()

    def _name(self) -> str:
        return self._rng.choice(self._names)

    def _amounts(self) -> dict[str, int | str]:
        names = ("vcore", "memory", "gpu", "r" * TEXT_MAX, *(f"r{number}" for number in range(self._rng.choice((0, 0, 0, 300)))))
        return {name: self._rng.choice(_AMOUNTS) for name in self._rng.sample(names, self._rng.randint(1, len(names)))}

    def _tags(self) -> dict[str, str]:
        kind = self._rng.randrange(8)
        if kind == 0:
            return {f"t{number}": "v" for number in range(ITEMS_MAX)}
        if kind == 1:
            return {f"t{number}": "v" * (TEXT_MAX - 8) for number in range(ITEMS_BYTES_MAX // TEXT_MAX)}
        return {"application.create.force": "true"} if kind == 2 else {}

    def _nodes(self) -> si.NodeRequest:
        actions = ("CREATE", "CREATE", "CREATE", "UPDATE", "DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DECOMISSION")
        return si.NodeRequest(
            nodes=[
                si.NodeInfo(
                    node_id=self._name(),
                    action=self._rng.choice(actions),
                    attributes=self._tags(),
                    schedulable_resource=self._amounts(),
                )
                for _ in range(self._rng.randint(1, 4))
            ]
        )

    def _queue(self) -> str:
        level = self._rng.choice(("a", "b" * 64))
        return ".".join((self._rng.choice(("root", "root.limited")), *[level] * self._rng.choice(_LEVELS)))

    def _applications(self) -> si.ApplicationRequest:
        return si.ApplicationRequest(
            new=[
                si.AddApplicationRequest(
                    application_id=self._name(),
                    queue_name=self._queue(),
                    ugi=si.UserGroupInformation(
                        user="alice", groups=[f"g{number}" for number in range(self._rng.choice((0, 1, ITEMS_MAX)))]
                    ),
                    tags=self._tags(),
                    execution_timeout_milli_seconds=self._rng.choice((0, 0, 1, _HUGE)),
                    placeholder_ask=self._rng.choice((None, None, self._amounts())),
                    gang_scheduling_style=self._rng.choice(("", "Soft", "Hard")),
                )
            ],
            remove=[si.RemoveApplicationRequest(application_id=self._name())] if self._rng.random() < 0.2 else [],
        )

    def _asks(self, count: int = 0) -> si.AllocationRequest:
        return si.AllocationRequest(
            allocations=[
                si.Allocation(
                    allocation_key=f"{self._name()[: TEXT_MAX - 8]}{number}",
                    application_id=self._name(),
                    resource_per_alloc=self._amounts() if not count else {"vcore": self._rng.choice(_AMOUNTS)},
                    priority=self._rng.choice((0, 2**31 - 1, -(2**31))),
                    allocation_tags={} if count else self._tags(),
                    task_group_name=self._rng.choice(("", "", "group")),
                    placeholder=self._rng.random() < 0.2,
                    preemption_policy=si.PreemptionPolicy(allow_preempt_other=True),
                    node_id=self._rng.choice(("", "", "", self._name())),
                )
                for number in range(count or self._rng.randint(1, 8))
            ]
        )

    def many_asks(self, count: int) -> si.AllocationRequest:
        """The most entries of a request, or fewer; without the longest names, or it would be too large."""
        names, self._names = self._names, self._names[:2]
        request, self._names = self._asks(count), names
        return request

    def _releases(self) -> si.AllocationRequest:
        kinds = ("STOPPED_BY_RM", "STOPPED_BY_RM", "PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED", "TIMEOUT")
        entries = [
            si.AllocationRelease(
                application_id=self._name(),
                allocation_key=self._rng.choice(("", f"{self._name()[: TEXT_MAX - 8]}{self._rng.randrange(8)}")),
                termination_type=self._rng.choice(kinds),
                message="m" * self._rng.choice((0, 100_000)),
            )
            for _ in range(self._rng.randint(1, 4))
        ]
        return si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=entries))

    def _administration(self) -> si.Request:
        if self._rng.random() < 0.3:
            return si.TerminateApplication(application_id=self._name())
        if self._rng.random() < 0.3:
            tags = {"namespace.resourcemaxapps": str(self._rng.choice((0, 1, 2**63)))}
            return si.SetQueueQuotas(queue_name=self._queue(), tags=tags)
        return si.MoveApplication(application_id=self._name(), queue_name=self._queue())


async def extremes(abused: Target, directory: Path, count: int, entries: int, seed: int) -> str:
    """Play them, and look at the journal in ``directory`` when the daemon has ended. Returns figures."""
    made, outcomes = Extremes(random.Random(seed)), Counter[str]()
    async with connect(abused.daemon.url, rm_id="rm-1", resume_from="now") as rm, trio.open_nursery() as nursery:
        nursery.start_soon(_read, rm, outcomes)
        await rm.request(si.UpdateConfigurationRequest(config=CONFIG))
        for _ in range(count):
            await _request(rm, made.draw(), outcomes)
        await _request(rm, made.many_asks(min(entries, ENTRIES_MAX)), outcomes)
        nursery.cancel_scope.cancel()
    assert min(outcomes["placed"], outcomes["released"], outcomes["rejected"]) > 0
    assert await abused.daemon.stop() == 0
    check_journal(directory)
    shown = ", ".join(f"{number} {name}" for name, number in outcomes.most_common())
    return f"{count} requests with extremes and one of {entries} asks: {shown}"


async def _request(rm: ResourceManager, request: si.Request, outcomes: Counter[str]) -> None:
    try:
        await rm.request(request)
        outcomes["carried out"] += 1
    except RequestRefused as refused:
        outcomes[refused.code] += 1
    except Refused:
        outcomes["carried out in part"] += 1


async def _read(rm: ResourceManager, outcomes: Counter[str]) -> None:
    """Count what was placed, released and rejected."""
    async for message in rm:
        if isinstance(message, si.AllocationResponse):
            outcomes.update(placed=len(message.new), released=len(message.released), rejected=len(message.rejected_allocations))


def check_journal(directory: Path) -> None:
    """Invariants hold for what was kept, and all of it is decided again."""
    with Reader.open(directory) as reader:
        found = recover(reader, reserves=True)
        assert found is not None
        broken: list[Any] = [text for kept in found.partitions.values() for text in violations(kept.core, kept.scheduler)]
        assert broken == []
    with Reader.open(directory) as reader:
        assert replayed(reader).difference is None
