"""Work beside which something is tried, for tests of dry runs, plans and what-ifs."""

from __future__ import annotations

from daemon import RunningDaemon, application, node

from ykactor.client.resource_manager import ResourceManager
from ykactor.wire.si import messages as si

QUEUES = """
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: a, resources: {max: {vcore: 2}}, properties: {preemption.delay: 1s}}
          - {name: b, resources: {guaranteed: {vcore: 2}}, properties: {preemption.delay: 1s}}
"""
POLICY = si.PreemptionPolicy(allow_preempt_self=True, allow_preempt_other=True)


def allocation(key: str, application_id: str, cores: int = 1) -> si.Allocation:
    return si.Allocation(key, application_id, resource_per_alloc={"vcore": cores * 1000}, preemption_policy=POLICY)


def applications(name: str, queue: str) -> si.ApplicationRequest:
    return si.ApplicationRequest(new=[si.AddApplicationRequest(name, queue, ugi=si.UserGroupInformation("al"))])


TWO_QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: a, resources: {max: {vcore: 2}}}
          - {name: b}
"""
LARGER = TWO_QUEUES.replace("vcore: 2", "vcore: 3")


async def asked_for_four(rm: ResourceManager) -> None:
    """Four tasks of which two run, in a queue of two cores."""
    await rm.request(node(vcore=4000))
    await rm.request(application(queue="root.a"))
    tasks = [
        si.Allocation(allocation_key=f"t{number}", application_id="app-1", resource_per_alloc={"vcore": 1000})
        for number in range(1, 5)
    ]
    await rm.request(si.AllocationRequest(allocations=tasks))


async def running(daemon: RunningDaemon) -> set[str]:
    return {key for found in (await daemon.state())["applications"].values() for key in found["allocations"]}
