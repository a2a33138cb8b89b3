"""Partitions come and go under a running daemon, over the socket, by file and by SIGHUP; the groups of users of this machine."""

import os
import signal
from contextlib import suppress

import msgspec
import pytest
import trio
import trio.testing
from daemon import next_allocated, next_event, real_daemon
from doubles import running_daemon
from partitiontexts import several
from world import limit, queue, tree

from ykactor.actors.commands import Intake
from ykactor.client import Refused, RequestRefused, connect, follow
from ykactor.surfaces.daemon.groups import os_groups
from ykactor.surfaces.files.config_loader import INLINE_MAX
from ykactor.wire import queuefile
from ykactor.wire.si import messages as si

LEAVES = [queue("a"), queue("b")]
FIRST = several(default=LEAVES)
TWO = several(default=LEAVES, gpu=LEAVES)


def replace(path, text):
    other = path.with_suffix(".new")
    other.write_text(text)
    os.replace(other, path)


def update(text, if_checksum=""):
    return si.UpdateConfigurationRequest(config=text, if_checksum=if_checksum)


def checksum(text):
    return queuefile.load(text).checksum


def node(partition, name="n1", vcore=4000):
    attributes = {"si/node-partition": partition}
    entry = si.NodeInfo(node_id=name, action="CREATE", attributes=attributes, schedulable_resource={"vcore": vcore})
    return si.NodeRequest(nodes=[entry])


def application(name, partition="default", queue_name="root.a", user="alice", groups=(), tags=None):
    ugi = si.UserGroupInformation(user=user, groups=list(groups))
    entry = si.AddApplicationRequest(
        application_id=name, queue_name=queue_name, partition_name=partition, ugi=ugi, tags=tags or {}
    )
    return si.ApplicationRequest(new=[entry])


def asks(partition, of, *keys):
    entries = [
        si.Allocation(allocation_key=key, application_id=of, partition_name=partition, resource_per_alloc={"vcore": 1000})
        for key in keys
    ]
    return si.AllocationRequest(allocations=entries)


async def heard_until_ack(rm, request):
    """The messages that the resource manager receives up to the ``Ack`` of a request, and that answer."""
    await rm.send(request)
    heard = []
    async for message in rm:
        if isinstance(message, si.Ack | si.ErrorResponse):
            return heard, message
        heard.append(message)
    raise AssertionError("the connection ended")


async def snapshot(daemon):
    """The state of every partition by name."""
    async with follow(daemon.url, from_="snapshot") as messages:
        first = await messages.__anext__()
    assert isinstance(first, si.Snapshot)
    return {partition.name: msgspec.to_builtins(partition) for partition in first.partitions}


# ---- over the socket


async def test_a_partition_comes_and_goes(queue_file):
    """CF-56: usable when the ``Ack`` is there; at its end the resource manager and followers learn it, and it is unknown."""
    async with (
        real_daemon("--config", queue_file) as daemon,
        follow(daemon.url) as events,
        connect(daemon.url, rm_id="rm-1") as rm,
    ):
        ack = await rm.request(update(TWO))
        assert ack.checksum == checksum(TWO)
        await rm.request(node("gpu"))
        await rm.request(node("default"))
        await rm.request(application("g", "gpu"))
        await rm.request(application("d"))
        await rm.request(asks("gpu", "g", "g1", "g2"))
        await next_event(events, "APP_ALLOC")
        await next_event(events, "APP_ALLOC")

        heard, ack = await heard_until_ack(rm, si.UpdateConfigurationRequest(id="remove", config=FIRST))
        assert (ack.id, ack.checksum) == ("remove", checksum(FIRST))
        changes = [entry for message in heard if isinstance(message, si.ApplicationResponse) for entry in message.updated]
        assert [(entry.application_id, entry.state) for entry in changes if entry.application_id == "g"][-2:] == [
            ("g", "Failing"),
            ("g", "Failed"),
        ]
        releases = [entry for message in heard if isinstance(message, si.AllocationResponse) for entry in message.released]
        assert [(entry.allocation_key, entry.partition_name, entry.termination_type, entry.message) for entry in releases] == [
            (key, "gpu", "STOPPED_BY_RM", "Partition gpu Removed") for key in ("g1", "g2")
        ]

        assert set(await snapshot(daemon)) == {"default"}
        gone = await next_event(events, "APP_FAILED")
        assert (gone.object_id, gone.partition) == ("g", "gpu")
        left = await next_event(events, "NODE_DECOMISSION")
        assert (left.object_id, left.partition) == ("n1", "gpu")
        for path in ("root.b", "root.a", "root"):
            left = await next_event(events, "QUEUE")
            assert (left.partition, left.event_change_type, left.queue_name) == ("gpu", "REMOVE", path)

        heard, _ = await heard_until_ack(rm, application_with_id("late", "gpu", "again"))
        (refused,) = [entry for message in heard for entry in message.rejected]
        assert refused.reason == "Failed to add application late to partition gpu, partition doesn't exist"
        await rm.request(asks("default", "d", "d1"))
        assert (await next_event(events, "APP_ALLOC")).object_id == "d"
        assert (await daemon.wait_logged("partition_removed"))["partition"] == "gpu"
        assert [line["partition"] for line in daemon.logged("partition_added")] == ["gpu"]

        await rm.request(update(TWO))  # and it comes back empty
        state = (await snapshot(daemon))["gpu"]
        assert (state["nodes"], state["applications"]) == ({}, {})
        assert await daemon.stop() == 0
        assert daemon.noise == ""


def application_with_id(name, partition, request_id):
    request = application(name, partition)
    return si.ApplicationRequest(id=request_id, new=request.new)


async def test_only_if_this_runs(queue_file):
    """``ifChecksum`` of something else changes nothing and names what runs; the answer to success is what runs now (CF-57)."""
    async with real_daemon("--config", queue_file) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        before = await snapshot(daemon)
        with pytest.raises(RequestRefused) as refused:
            await rm.request(update(TWO, checksum(TWO)))
        assert (refused.value.code, refused.value.path) == ("CHECKSUM_MISMATCH", "ifChecksum")
        assert checksum(FIRST) in refused.value.message
        assert await snapshot(daemon) == before
        first = await rm.request(update(TWO, checksum(FIRST)))
        assert first.checksum == checksum(TWO)
        again = await rm.request(update(TWO, first.checksum))  # CF-53: nothing to do, and acknowledged all the same
        assert again.checksum == first.checksum
        assert (await rm.request(update(FIRST, again.checksum))).checksum == checksum(FIRST)
        assert (await rm.request(node("default"))).checksum == ""
        assert set(await snapshot(daemon)) == {"default"}


async def test_one_partition_refuses(queue_file):
    """CF-61 in one: the other does not change either, none comes, none goes; the requester gets the queue's name."""
    async with real_daemon("--config", queue_file) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        await rm.request(update(TWO))
        await rm.request(application("g", "gpu"))
        before = await snapshot(daemon)
        split = [queue("a", queue("child"))]
        with pytest.raises(RequestRefused, match=r"queue root\.a cannot become a parent") as refused:
            await rm.request(update(several(default=[queue("z")], gpu=split, fresh=LEAVES), checksum(TWO)))
        assert refused.value.code == "CONFIG_REFUSED"
        assert await snapshot(daemon) == before
        assert (await rm.request(update(TWO, checksum(TWO)))).checksum == checksum(TWO)  # it still runs


async def test_a_partition_in_another_case(queue_file):
    """The partition is the same one: nothing is added or removed, what it runs goes on."""
    async with real_daemon("--config", queue_file) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        await rm.request(update(TWO))
        await rm.request(node("gpu"))
        await rm.request(update(several(default=LEAVES, GPU=[*LEAVES, queue("c")])))
        state = await snapshot(daemon)
        assert set(state) == {"default", "gpu"}
        assert set(state["gpu"]["nodes"]) == {"n1"}
        assert "root.c" in state["gpu"]["queues"]
        await daemon.wait_logged("config_applied", 2)
        assert len(daemon.logged("partition_added")) == 1
        assert daemon.logged("partition_removed") == []


async def test_one_line_for_each_change(queue_file):
    """The log says what is different now, one ``config_change`` each, with the partition; the refused changes are not there."""
    async with real_daemon("--config", queue_file) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        await rm.request(update(TWO))
        await daemon.wait_logged("config_applied")
        seen = len(daemon.logged("config_change"))
        await rm.request(application("d"))
        with pytest.raises(RequestRefused):
            await rm.request(update(several(default=[queue("a", queue("x"))], gpu=[queue("y")])))
        await rm.request(
            update(
                several(
                    default=[*LEAVES, queue("c")], gpu=[queue("a", max={"vcore": 1000}), queue("b", p={"priority.offset": 2})]
                )
            )
        )
        await daemon.wait_logged("config_applied", 2)
        lines = [(line["partition"], line["change"]) for line in daemon.logged("config_change")[seen:]]
        assert len(lines) == len(set(lines)) == 3
        assert ("default", "queue root.c: added") in lines
        gpu = [change for partition, change in lines if partition == "gpu"]
        assert gpu[0].startswith("queue root.a: ")
        assert gpu[1].startswith("queue root.b: ")


async def test_changes_of_limits_hide_no_change(queue_file):
    """Other facts of the turn, here a limit of a user, come behind the changes, and do not keep them out of the log."""
    limited = queue("a", max={"vcore": 2000}, limits=[limit("alice", vcore=1000)])
    async with real_daemon("--config", queue_file) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        await rm.request(application("d", ""))
        seen = len(daemon.logged("config_change"))
        await rm.request(update(several(default=[limited, queue("b")])))
        await daemon.wait_logged("config_applied")
        changes = [line["change"] for line in daemon.logged("config_change")[seen:]]
        assert any(change.startswith("queue root.a: max ") for change in changes)


async def test_with_the_registration(queue_file):
    """SC-140: a registration may bring partitions, which are usable then, and take others away with what another session left."""
    async with real_daemon("--config", queue_file) as daemon:
        async with connect(daemon.url, rm_id="rm-1", config=TWO) as rm:
            await rm.request(node("gpu"))
            await rm.request(application("g", "gpu"))
            await rm.request(asks("gpu", "g", "g1"))
            assert await next_allocated(rm) == [("g1", "n1")]
            known = rm.sequence
        with pytest.raises(RequestRefused, match=r"registration of RM failed: queue root\.a cannot become"):
            async with connect(daemon.url, rm_id="rm-1", config=several(gpu=[queue("a", queue("x"))]), resume_from=known):
                pass
        assert (await snapshot(daemon))["gpu"]["applications"]["g"]["state"] == "Starting"
        async with connect(daemon.url, rm_id="rm-1", config=several(arm=LEAVES)) as rm:
            assert set(await snapshot(daemon)) == {"arm"}
            await rm.request(node("arm"))
        assert await daemon.stop() == 0
        assert daemon.noise == ""


# ---- from all sides


@pytest.mark.parametrize("size", ["small", "large"])
async def test_from_all_sides_at_once(queue_file, size):
    """File, SIGHUP and socket together: in the end one of the texts runs, whole, and it is the one that is said to run."""
    padding = "\n#" + "." * INLINE_MAX if size == "large" else ""
    # each text has its own queues in both partitions, so that a mixture would show
    texts = [several(default=[queue(f"q{n}")], gpu=[queue(f"q{n}")]) + padding for n in range(6)]
    async with real_daemon("--config", queue_file) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        acks = []

        async def by_socket():
            acks.extend([await rm.request(update(text)) for text in texts[:3]])

        async def by_file():
            for text in texts[3:]:
                replace(queue_file, text)
                daemon.process.send_signal(signal.SIGHUP)
                await trio.sleep(0.05)

        async def running():
            """The checksum of what runs."""
            with pytest.raises(RequestRefused) as refused:
                await rm.request(update(FIRST, "0"))
            return refused.value.message.rpartition(" ")[2]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(by_socket)
            nursery.start_soon(by_file)
        assert [ack.checksum for ack in acks] == [checksum(text) for text in texts[:3]]
        while not any(line["checksum"] == checksum(texts[-1]) for line in daemon.logged("config_applied")):
            await daemon.wait_logged("config_applied", len(daemon.logged("config_applied")) + 1)
        winner, found = "", {}
        while winner != await running():  # the last signal may just be obeyed
            winner, found = await running(), await snapshot(daemon)
        (number,) = [number for number, text in enumerate(texts) if checksum(text) == winner]
        assert set(found) == {"default", "gpu"}
        for partition in found.values():
            active = {path for path, queue_ in partition["queues"].items() if queue_["state"] == "Active"}
            assert active == {"root", f"root.q{number}"}
        await daemon.wait_logged("config_refused")
        assert {line["code"] for line in daemon.logged("config_refused")} == {"CHECKSUM_MISMATCH"}  # our own questions


async def test_work_while_partitions_come_and_go(queue_file):
    """Requests for a partition that comes and goes all the time are answered, one way or the other; snapshots too."""
    async with real_daemon("--config", queue_file) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        done = trio.Event()

        async def reload():
            number = 0
            while number < 6 or answered < 50:
                replace(queue_file, several(default=[*LEAVES, queue(f"x{number}")]) if number % 2 else TWO)
                daemon.process.send_signal(signal.SIGHUP)
                number += 1
                await daemon.wait_logged("config_applied", number)
            done.set()

        async def look():
            while not done.is_set():
                assert set(await snapshot(daemon)) in ({"default"}, {"default", "gpu"})

        answered = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reload)
            nursery.start_soon(look)
            number = 0
            while not done.is_set():
                number += 1
                for partition in ("gpu", "default"):
                    for request in (
                        node(partition, f"n{number}", vcore=1000),
                        application(f"{partition}-{number}", partition),
                        asks(partition, f"{partition}-{number}", f"{partition}-t{number}"),
                    ):
                        try:
                            await rm.request(request)
                        except Refused as refused:  # the partition is not there, or not what it was
                            answered -= not refused.rejections  # refused whole: it should not
                        answered += 1
        assert set((await snapshot(daemon))["default"]["nodes"]) == {f"n{n + 1}" for n in range(number)}
        assert await daemon.stop() == 0
        assert daemon.noise == ""


async def test_steps_while_partitions_come_and_go(queue_file):
    """Manual mode: a ``ScheduleRequest`` reaches the partitions that are there; a reload meanwhile harms nobody."""
    async with real_daemon("--manual", "--config", queue_file) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        done = trio.Event()

        async def reload():
            for number in range(6):
                replace(queue_file, several(default=[*LEAVES, queue(f"x{number}")]) if number % 2 else TWO)
                daemon.process.send_signal(signal.SIGHUP)
                await daemon.wait_logged("config_applied", number + 1)
            done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reload)
            while not done.is_set():
                with suppress(RequestRefused):  # a partition was just going
                    await rm.request(si.ScheduleRequest(steps=3))
        assert await daemon.stop() == 0
        assert daemon.noise == ""


async def test_a_partition_goes_while_groups_are_looked_up():
    """A name service may take seconds: who asked for a partition that is gone by then gets the ordinary answer."""
    async with running_daemon("default", "gpu") as daemon:

        async def slow(partition, submissions):
            if partition == "gpu":
                daemon.partitions.pop("gpu").close()
            await trio.lowlevel.checkpoint()
            return submissions

        daemon.with_groups = slow
        async with connect(daemon.url, rm_id="rm-1") as rm:
            heard, ack = await heard_until_ack(rm, application_with_id("late", "gpu", "r1"))
            assert ack == si.Ack(id="r1", sequence=ack.sequence)
            (refused,) = [entry for message in heard for entry in getattr(message, "rejected", [])]
            assert refused.reason == "Failed to add application late to partition gpu, partition doesn't exist"
            await rm.request(application("app-1"))


async def test_a_partition_goes_while_a_sender_waits_for_room():
    """Likewise for one whose inbox was full."""
    async with running_daemon("default", "gpu") as daemon:
        gpu = daemon.doubles["gpu"]
        async with connect(daemon.url, rm_id="rm-1") as rm:
            gpu.resume = trio.Event()
            inbox = gpu.inbox
            while inbox.messages_waiting() < inbox.capacity:
                inbox.put_nowait(Intake([]))
                await trio.testing.wait_all_tasks_blocked(0.01)

            async def leave():
                while not inbox.senders_waiting():  # noqa: ASYNC110  # a channel cannot set an event
                    await trio.sleep(0.01)
                del daemon.partitions["gpu"]
                inbox.close()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(leave)
                heard, ack = await heard_until_ack(rm, application_with_id("late", "gpu", "r1"))
            assert isinstance(ack, si.Ack)
            (refused,) = [entry for message in heard for entry in getattr(message, "rejected", [])]
            assert refused.reason == "Failed to add application late to partition gpu, partition doesn't exist"


# ---- who is in which group


async def test_groups_of_this_machine(queue_file):
    """QU-92, QU-93, resolver ``os``: a user who comes without groups has those of the machine, another one does not exist."""
    group, *_ = os_groups("root")
    closed = [queue("a", submitacl=f" {group}"), queue("b", submitacl=" nogroup")]
    queue_file.write_text(tree(*closed, submitacl="", usergroupresolver={"type": "os"}))
    async with (
        real_daemon("--config", queue_file) as daemon,
        follow(daemon.url) as events,
        connect(daemon.url, rm_id="rm-1") as rm,
    ):

        async def outcome(request):
            heard, _ = await heard_until_ack(rm, si.ApplicationRequest(id=request.new[0].application_id, new=request.new))
            responses = [message for message in heard if isinstance(message, si.ApplicationResponse)]
            assert [entry.application_id for response in responses for entry in response.accepted + response.rejected] == [
                request.new[0].application_id
            ]
            return "".join(entry.reason for response in responses for entry in response.rejected)

        assert await outcome(application("one", user="root")) == ""
        assert (await next_event(events, "APP_NEW")).object_id == "one"
        assert "unknown user no-such-user" in await outcome(application("two", user="no-such-user"))
        assert "unknown user no-such-user" in await outcome(application("three", user="no-such-user"))
        assert await outcome(application("given", user="no-such-user", groups=[group])) == ""  # QU-92: nobody is asked
        assert await outcome(application("other", user="root", groups=["others"])) != ""
        assert await outcome(application("forced", user="no-such-user", tags={"application.create.force": "true"})) == ""
        assert (await snapshot(daemon))["default"]["applications"]["forced"]["state"] == "New"
