"""A resource manager with one node and one task: it waits until the task may run, and takes both back."""

import sys

import trio

from ykactor.client import Refused, connect, cores, gib
from ykactor.wire.si import messages as si

URL = sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:9081"
NODE = si.NodeInfo(node_id="n1", action=si.NodeAction.CREATE, schedulable_resource={"vcore": cores(4), "memory": gib(8)})
APPLICATION = si.AddApplicationRequest(
    application_id="app-1", queue_name="root.batch", ugi=si.UserGroupInformation(user="alice"), tags={"namespace": "batch"}
)
TASK = si.Allocation(allocation_key="t1", application_id="app-1", resource_per_alloc={"vcore": cores(0.5), "memory": gib(1)})


async def main() -> None:
    async with connect(URL, rm_id="example") as rm:
        requests: list[si.WorkRequest] = [
            si.NodeRequest(nodes=[NODE]),
            si.ApplicationRequest(new=[APPLICATION]),
            si.AllocationRequest(allocations=[TASK]),
        ]
        async for _, outcome in rm.send_all(requests):
            if isinstance(outcome, Refused):
                raise outcome
        async for message in rm:
            if isinstance(message, si.AllocationResponse) and message.new:
                print("t1 runs on", message.new[0].node_id)
                break
        # Without this the daemon keeps node and task, and the place of "example".
        await rm.request(si.DeregisterResourceManagerRequest())


trio.run(main)
