"""Churn: what a resource manager and the people of a site do all day, at random.

Everything has a name of its own: applications, asks, users, namespaces (dynamic queues), predicate classes, nodes. So what is
kept of any of them for too long shows as growth.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from bench.lives import Life
from bench.manager import Manager
from ykactor.wire.si import messages as si

#: Ten years: applications that end before their time must not leave anything behind.
_YEARS_MS = 10 * 365 * 24 * 3_600_000
_GIB = 2**30
_NODES = 4

_CONFIG = """
partitions:
  - name: default
    preemption: {{enabled: true, quotapreemptionenabled: true}}
    placementrules:
      - {{name: provided}}
      - {{name: tag, value: namespace, create: true, parent: {{name: fixed, value: root.namespaces}}}}
    queues:
      - name: root
        submitacl: "*"
        limits:
          - {{limit: each user, users: ["*"], maxresources: {{vcore: "{user}"}}}}
          - {{limit: each group, groups: [group-1, "*"], maxapplications: 200}}
        queues:
          - {{name: urgent, resources: {{guaranteed: {{vcore: "16"}}}}, properties: {{priority.offset: "10"}}}}
          - name: batch
            maxapplications: 40
            resources: {{max: {{vcore: "{batch}"}}}}
            properties:
              {{quota.preemption.delay: 5m, application.unschedasks.backoff: "2", application.sort.policy: {order}}}
          - {{name: namespaces, parent: true}}
{more}"""
_MORE_QUEUES = "          - {name: guests, parent: true, queues: [{name: lab}, {name: shop}]}\n"
_MORE_PARTITIONS = "  - {name: guests, queues: [{name: root, submitacl: '*'}]}\n"


def config(number: int) -> str:
    """The queue file after so many changes."""
    more = (_MORE_QUEUES if number % 2 else "") + (_MORE_PARTITIONS if number % 3 == 1 else "")
    order = "fifo" if number % 2 else "fair"
    return _CONFIG.format(user=(16, 24)[number % 2], batch=(24, 8, 16)[number % 3], order=order, more=more)


class Churn:
    """The resource manager, its nodes and applications. ``step`` is a minute of its life.

    Args:
        seed: another one makes other decisions.
        busy: applications in an hour, on average.
    """

    def __init__(self, seed: int, busy: float) -> None:
        self._chance = Random(seed)
        self._each_step = busy / 60
        self.manager = Manager(lambda: self._chance.expovariate(1 / 1200))
        self._applications_count = self._nodes_count = self._configs_count = 0
        self._nodes: list[str] = []
        #: Applications that live, and at which step they are removed.
        self._live: dict[str, int] = {}
        self._steps = 0

    async def begin(self, life: Life) -> None:
        """Register anew and report new nodes."""
        await self.manager.register(life)
        self._nodes.clear()
        self._live.clear()
        self.manager.over.clear()
        await self.manager.request(si.NodeRequest(nodes=[self._joining() for _ in range(_NODES)]))

    async def step(self, life: Life) -> None:
        """End tasks, submit and remove applications; now and then change a node, or the configuration."""
        self._steps += 1
        for application_id in self.manager.over:
            self._live.pop(application_id, None)
        self.manager.over.clear()
        applications, asks = self._submitted()
        gone = [application_id for application_id, at_step in self._live.items() if at_step <= self._steps]
        for application_id in gone:
            del self._live[application_id]
        removed = [si.RemoveApplicationRequest(application_id=application_id) for application_id in gone]
        if applications or removed:
            await self.manager.request(si.ApplicationRequest(new=applications, remove=removed))
        releases = si.AllocationReleasesRequest(allocations_to_release=[*self.manager.releases(), *self._foreign_releases()])
        if asks or releases.allocations_to_release:
            await self.manager.request(si.AllocationRequest(allocations=asks, releases=releases))
        await self._operate()

    # ---- nodes and configuration

    def _joining(self) -> si.NodeInfo:
        self._nodes_count += 1
        self._nodes.append(f"node-{self._nodes_count}")
        return si.NodeInfo(
            node_id=self._nodes[-1],
            action="CREATE",
            schedulable_resource={"vcore": 8_000, "memory": 64 * _GIB},
            attributes={"rack": f"rack-{self._nodes_count % 4}", "serial": str(self._nodes_count)},
        )

    async def _operate(self) -> None:
        """Carry out the requests of operators."""
        if self._steps % 90 == 30:
            await self._on_node(self._nodes[0], "DRAIN_NODE")
        elif self._steps % 90 == 60:
            await self._on_node(self._nodes.pop(0), "DECOMISSION")
            await self.manager.request(si.NodeRequest(nodes=[self._joining()]))
        elif self._steps % 360 == 75:
            self._configs_count += 1
            await self.manager.request(si.UpdateConfigurationRequest(config=config(self._configs_count)))
        elif self._steps % 45 == 20 and self._live:
            moved = self._chance.choice(list(self._live))
            await self.manager.request(si.MoveApplication(application_id=moved, queue_name="root.batch"))
        elif self._steps % 45 == 40 and self._live:
            await self.manager.request(si.TerminateApplication(application_id=self._chance.choice(list(self._live))))

    async def _on_node(self, node_id: str, action: str) -> None:
        await self.manager.request(si.NodeRequest(nodes=[si.NodeInfo(node_id=node_id, action=action)]))

    # ---- applications

    def _submitted(self) -> tuple[list[si.AddApplicationRequest], list[si.Allocation]]:
        applications: list[si.AddApplicationRequest] = []
        asks: list[si.Allocation] = [self._foreign()] if self._steps % 20 == 0 else []
        count = int(self._each_step + self._chance.random())
        for _ in range(count):
            self._applications_count += 1
            kind = self._chance.choices(list(_KINDS), list(_KINDS.values()))[0]
            application, its_asks = kind(self, f"app-{self._applications_count}")
            self._live[application.application_id] = self._steps + self._chance.choice((20, 240, 240, 240))
            applications.append(application)
            asks += its_asks
        return applications, asks

    def _user(self) -> si.UserGroupInformation:
        number = self._applications_count // 4
        return si.UserGroupInformation(user=f"user-{number}", groups=[f"group-{number // 5}", f"people-{number}"])

    def _application(self, application_id: str, queue: str, **more: object) -> si.AddApplicationRequest:
        tags = {} if queue else {"namespace": f"team-{self._applications_count // 3}"}
        fields = {"application_id": application_id, "queue_name": queue, "ugi": self._user(), "tags": tags}
        return si.AddApplicationRequest(**{**fields, **more})  # type: ignore[arg-type]

    def _asks(self, application_id: str, vcore: int = 2_000, **more: object) -> list[si.Allocation]:
        return [
            si.Allocation(
                allocation_key=f"{application_id}-{name}",
                application_id=application_id,
                resource_per_alloc={"vcore": vcore, "memory": self._chance.randrange(1, 8) * _GIB},
                priority=self._chance.randrange(3),
                preemption_policy=si.PreemptionPolicy(allow_preempt_self=True, allow_preempt_other=True),
                **more,  # type: ignore[arg-type]
            )
            for name in range(self._chance.randrange(1, 5))
        ]

    def _plain(self, application_id: str) -> tuple[si.AddApplicationRequest, list[si.Allocation]]:
        return self._application(application_id, self._chance.choice(("root.batch", ""))), self._asks(application_id)

    def _urgent(self, application_id: str) -> tuple[si.AddApplicationRequest, list[si.Allocation]]:
        return self._application(application_id, "root.urgent"), self._asks(application_id, 6_000)

    def _rejected(self, application_id: str) -> tuple[si.AddApplicationRequest, list[si.Allocation]]:
        return self._application(application_id, "root.nowhere.at-all"), self._asks(application_id)

    def _timed(self, application_id: str) -> tuple[si.AddApplicationRequest, list[si.Allocation]]:
        limit_ms = self._chance.choice((300_000, _YEARS_MS))
        return self._application(application_id, "", execution_timeout_milli_seconds=limit_ms), self._asks(application_id)

    def _hopeless(self, application_id: str) -> tuple[si.AddApplicationRequest, list[si.Allocation]]:
        return self._application(application_id, ""), self._asks(application_id, 20_000)

    def _selecting(self, application_id: str) -> tuple[si.AddApplicationRequest, list[si.Allocation]]:
        serial = self._chance.randrange(self._nodes_count - _NODES, self._nodes_count + 1)
        tags = {"ykactor.io/node-selector": self._chance.choice((f"serial={serial}", f"app-{serial}!=1", "rack=rack-1"))}
        return self._application(application_id, "root.batch"), self._asks(application_id, allocation_tags=tags)

    def _pinned(self, application_id: str) -> tuple[si.AddApplicationRequest, list[si.Allocation]]:
        tags = {"yunikorn.apache.org/requiredNode": self._chance.choice(self._nodes)}
        return self._application(application_id, ""), self._asks(application_id, allocation_tags=tags)

    def _picky(self, application_id: str) -> tuple[si.AddApplicationRequest, list[si.Allocation]]:
        tags = {"ykactor.io/predicate": f"volume-of-{application_id}"}
        return self._application(application_id, ""), self._asks(application_id, allocation_tags=tags)

    def _gang(self, application_id: str) -> tuple[si.AddApplicationRequest, list[si.Allocation]]:
        """A gang; the real asks of every third never come, and of some gangs they are smaller."""
        style = self._chance.choice(("Soft", "Hard"))
        total: si.WireResource = {"vcore": 6_000, "memory": 3 * _GIB}
        application = self._application(application_id, "", placeholder_ask=total, gang_scheduling_style=style)
        asks = []
        for number in range(3):
            size: si.WireResource = {"vcore": 2_000, "memory": _GIB}
            ask = si.Allocation(
                allocation_key=f"{application_id}-p{number}",
                application_id=application_id,
                resource_per_alloc=size,
                task_group_name="workers",
                placeholder=True,
            )
            asks.append(ask)
            if self._applications_count % 3:
                asks.append(
                    si.Allocation(
                        allocation_key=f"{application_id}-r{number}",
                        application_id=application_id,
                        resource_per_alloc={"vcore": self._chance.choice((1_000, 2_000)), "memory": _GIB},
                        task_group_name="workers",
                    )
                )
        return application, asks

    # ---- what other schedulers place

    def _foreign(self) -> si.Allocation:
        return si.Allocation(
            allocation_key=f"foreign-{self._steps}",
            resource_per_alloc={"vcore": 500},
            allocation_tags={"foreign": "default"},
            node_id=self._chance.choice(self._nodes),
        )

    def _foreign_releases(self) -> list[si.AllocationRelease]:
        past = self._steps - 60
        return [si.AllocationRelease(allocation_key=f"foreign-{past}")] if past > 0 and past % 20 == 0 else []


_Kind = Callable[[Churn, str], tuple[si.AddApplicationRequest, list[si.Allocation]]]
#: The kinds of applications, and how many of 100 there are.
_KINDS: dict[_Kind, int] = {
    Churn._plain: 40,
    Churn._urgent: 10,
    Churn._rejected: 8,
    Churn._timed: 8,
    Churn._hopeless: 4,
    Churn._selecting: 6,
    Churn._pinned: 4,
    Churn._picky: 8,
    Churn._gang: 12,
}
