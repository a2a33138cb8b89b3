"""A trio client for the daemon: a resource manager, an operator, or a follower of the event feed.

`ykactor.client.asyncio` and `ykactor.client.sync` have the same for programs that run asyncio, or no event loop.

Messages are the structs of `ykactor.wire.si.messages`.

Examples
--------
A resource manager with one node and one task, which waits until the task may run::

    import trio

    from ykactor.client import connect, cores, gib
    from ykactor.wire.si import messages as si

    async def run_one_task(url):
        node = si.NodeInfo(node_id="n1", action="CREATE", schedulable_resource={"vcore": cores(4), "memory": gib(8)})
        alice = si.UserGroupInformation(user="alice")
        app = si.AddApplicationRequest(application_id="app-1", ugi=alice, tags={"namespace": "default"})
        task = si.Allocation(allocation_key="t1", application_id="app-1", resource_per_alloc={"vcore": cores(0.5)})
        async with connect(url, rm_id="example") as rm:
            await rm.request(si.NodeRequest(nodes=[node]))
            await rm.request(si.ApplicationRequest(new=[app]))
            await rm.request(si.AllocationRequest(allocations=[task]))
            async for response in rm:
                if isinstance(response, si.AllocationResponse) and response.new:
                    # Drops the node and the task; without it the daemon keeps both, and its place for rm_id "example".
                    await rm.request(si.DeregisterResourceManagerRequest())
                    return response.new[0].node_id

    print("runs on", trio.run(run_one_task, "ws://127.0.0.1:9081"))

A follower that prints what happens in one queue and everything below it::

    import trio

    from ykactor.client import follow

    async def print_queue(url):
        async with follow(url, queues=["root.default"]) as messages:
            async for message in messages:
                print(message)

    trio.run(print_queue, "ws://127.0.0.1:9081")

`keep_registered` is the session of a resource manager that outlives the daemon: it connects again by itself, and says when
everything is to be reported.

A URL is ``ws://HOST:PORT``, ``wss://HOST:PORT`` or ``unix:PATH``. Where the daemon asks who one is, `connect` and `follow` take a
token: ``connect(url, rm_id="example", token=token)``. It is not sent over ``ws://`` to another machine, unless ``insecure=True``
allows it, because whoever is on the way could read it. ``tls=tls_context(ca="ca.pem")`` says whom to trust with ``wss://``.
"""

from ykactor.client.errors import Disconnected, Refused, RequestRefused, SessionReplaced
from ykactor.client.follower import FollowedMessage, Follower, SubscriptionOptions, follow
from ykactor.client.kept import KeptSession, Refusal, keep_registered
from ykactor.client.login import LoginOptions, tls_context
from ykactor.client.operator import Operator, check_health, explain, operate, read_configuration, read_usage
from ykactor.client.quantities import cores, gib
from ykactor.client.resource_manager import Answered, RegistrationOptions, ResourceManager, connect

__all__ = [
    "connect",
    "ResourceManager",
    "Answered",
    "keep_registered",
    "KeptSession",
    "Refusal",
    "RegistrationOptions",
    "explain",
    "follow",
    "Follower",
    "FollowedMessage",
    "SubscriptionOptions",
    "operate",
    "Operator",
    "read_configuration",
    "check_health",
    "read_usage",
    "Disconnected",
    "Refused",
    "RequestRefused",
    "SessionReplaced",
    "LoginOptions",
    "tls_context",
    "cores",
    "gib",
]
