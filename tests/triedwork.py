"""Work that is tried beside what there is, for tests of dry runs."""

from __future__ import annotations

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
