"""The queue file changes under a running daemon: by hand, by rename, by SIGHUP, and over the socket."""

import json
import os
import signal

import msgspec
import pytest
import yaml
from daemon import application, asks, next_allocated, next_event, node, real_daemon
from simulated import simulate, simulate_with_actors
from world import queue, tree

from ykactor.client import Refused, RequestRefused, check_health, connect, follow
from ykactor.core.messages.facts import ApplicationChanged, QueueRemoved, QueueStateChanged, Released
from ykactor.wire import queuefile
from ykactor.wire.scenario import load
from ykactor.wire.si import messages as si

FIRST = tree(queue("a", max={"vcore": 4000}), queue("b"))


def in_place(path, text):
    path.write_text(text)


def by_rename(path, text):
    other = path.with_suffix(".new")
    other.write_text(text)
    os.replace(other, path)


@pytest.mark.parametrize("write", [in_place, by_rename])
async def test_a_good_file_is_followed(queue_file, write):
    """However it is written: queues and limits change, followers see it, what cannot change is kept, again and again."""
    async with real_daemon("--config", queue_file) as daemon, follow(daemon.url) as events:
        write(queue_file, tree(queue("a", max={"vcore": 2000}), queue("b"), queue("c")))
        assert (await next_event(events, "QUEUE_MAX")).resource == {"vcore": 2000}
        assert (await next_event(events, "QUEUE", "")).queue_name == "root.c"
        await next_event(events, "QUEUE_CONFIG", "configuration accepted")
        state = await daemon.state()
        assert state["queues"]["root.a"]["max"] == {"vcore": 2000}
        assert set(state["queues"]) == {"root", "root.a", "root.b", "root.c"}
        write(queue_file, FIRST)
        await next_event(events, "QUEUE_CONFIG", "configuration accepted")
        applied = await daemon.wait_logged("config_applied", 2)
        assert applied["checksum"] == queuefile.load(FIRST).checksum


async def test_sighup_reads_the_file_again(queue_file):
    """Also when nothing changed: that is not an error and changes nothing."""
    async with real_daemon("--config", queue_file) as daemon:
        before = await daemon.state()
        daemon.process.send_signal(signal.SIGHUP)
        assert (await daemon.wait_logged("config_read"))["reload"] is True
        assert await daemon.state() == before
        assert await daemon.stop() == 0


async def test_sighup_without_a_file_is_survived():
    """The built-in default has nothing to read again; the log says so."""
    async with real_daemon() as daemon:
        daemon.process.send_signal(signal.SIGHUP)
        await daemon.wait_logged("reload_ignored")
        assert await daemon.stop() == 0


async def test_standard_input_is_read_once(queue_file):
    """``--config -`` is not watched: the log says so, and SIGHUP has nothing to read again."""
    wrapper = ["sh", "-c", f'exec "$@" < {queue_file}', "sh"]
    async with real_daemon("--config", "-", wrapper=wrapper) as daemon:
        assert (await daemon.wait_logged("config_loaded"))["source"] == "standard input"
        await daemon.wait_logged("config_not_watched")
        assert "root.a" in (await daemon.state())["queues"]
        daemon.process.send_signal(signal.SIGHUP)
        await daemon.wait_logged("reload_ignored")
        assert await daemon.stop() == 0


def mounted(directory, version, text):
    """Mount a version of a manifest as Kubernetes does: in a directory of its own, to which the link ``..data`` is switched."""
    (directory / version).mkdir()
    (directory / version / "manifest.yaml").write_text(text)
    (directory / "..data_tmp").symlink_to(version)
    (directory / "..data_tmp").rename(directory / "..data")


def config_map(text):
    entries = {"service.schedulingInterval": "2s", "queues.yaml": text}
    return yaml.safe_dump({"kind": "ConfigMap", "metadata": {"name": "yunikorn-configs"}, "data": entries})


async def test_a_mounted_config_map_is_followed(tmp_path):
    """CF-85: the switch of ``..data`` is seen, mistakes have their place in the manifest, the first warnings are logged."""
    mounted(tmp_path, "..v1", config_map(FIRST))
    path = tmp_path / "manifest.yaml"
    path.symlink_to("..data/manifest.yaml")
    async with real_daemon("--config", path) as daemon, follow(daemon.url) as events:
        assert "ignored: service.schedulingInterval" in (await daemon.wait_logged("config_warning"))["reason"]
        second = tree(queue("a"), queue("c"))
        mounted(tmp_path, "..v2", config_map(second))
        await next_event(events, "QUEUE_CONFIG", "configuration accepted")
        assert (await daemon.wait_logged("config_applied"))["checksum"] == queuefile.load(second).checksum
        assert (await daemon.state())["queues"]["root.c"]["state"] == "Active"
        mounted(tmp_path, "..v3", "kind: ConfigMap\ndata:\n  queues.yaml: |\n    partitions:\n    - colour: red\n")
        assert f"{path}:5:7: " in (await daemon.wait_logged("config_refused"))["reason"]


async def test_a_bad_file_changes_nothing(queue_file):
    """Every mistake is logged with line and column and is an event; the next good file is taken."""
    async with real_daemon("--config", queue_file) as daemon, follow(daemon.url) as events:
        before = await daemon.state()
        root = "      - name: root\n        maxapplications: many\n        colour: red\n"
        queue_file.write_text(f"partitions:\n  - name: default\n    queues:\n{root}")
        event = await next_event(events, "QUEUE_CONFIG", "configuration rejected")
        logged = await daemon.wait_logged("config_refused")
        for where in (f"{queue_file}:5:26: ", f"{queue_file}:6:9: "):
            assert where in logged["reason"]
            assert where in event.message
        assert await daemon.state() == before
        queue_file.write_text(tree(queue("a"), queue("b")))
        await next_event(events, "QUEUE_CONFIG", "configuration accepted")


async def _files_problem(url):
    """The problem of the check of files; "" if what they say is in force."""
    health = await check_health(url)
    (problem,) = (check.problem for check in health.checks if check.name == "Files")
    assert health.healthy is not bool(problem)
    return problem


async def test_health_tells_of_a_queue_file_that_is_not_in_force(queue_file):
    """CF-52: while the file is wrong or cannot be read, health says why; that ends with a good file, also with the one before."""
    good = queue_file.read_text()
    async with real_daemon("--config", queue_file) as daemon:
        assert await _files_problem(daemon.url) == ""
        queue_file.write_text("partitions: none\n")
        await daemon.wait_logged("config_refused")
        assert f"{queue_file} is not in force: {queue_file}:1:13: " in await _files_problem(daemon.url)
        queue_file.write_text(good)
        await daemon.wait_logged("config_unchanged")
        assert await _files_problem(daemon.url) == ""
        queue_file.unlink()
        await daemon.wait_logged("config_vanished")
        assert "No such file" in await _files_problem(daemon.url)


async def test_health_tells_of_a_queue_file_that_partitions_refuse(queue_file):
    """CF-58: a file that contradicts what runs is not in force, whatever comes in between, until another one is."""
    wrong = tree(queue("a", queue("c")), queue("b"))
    async with real_daemon("--config", queue_file) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        await rm.request(application(queue="root.a"))
        queue_file.write_text(wrong)
        await daemon.wait_logged("config_refused")
        refused = await _files_problem(daemon.url)
        assert "root.a" in refused
        queue_file.write_text("partitions: none\n")
        await daemon.wait_logged("config_refused", 2)
        queue_file.write_text(wrong)
        await daemon.wait_logged("config_unchanged")
        assert await _files_problem(daemon.url) == refused
        queue_file.write_text(tree(queue("a"), queue("b")))
        await daemon.wait_logged("config_applied", 1)
        assert await _files_problem(daemon.url) == ""


async def test_a_file_that_comes_and_goes(queue_file):
    """The daemon keeps its configuration while the file is missing, and sees the file return."""
    async with real_daemon("--config", queue_file) as daemon, follow(daemon.url) as events:
        queue_file.unlink()
        await daemon.wait_logged("config_vanished")
        queue_file.write_text(tree(queue("z")))
        await next_event(events, "QUEUE_CONFIG", "configuration accepted")
        assert (await daemon.state())["queues"]["root.a"]["state"] == "Draining"


async def test_a_leaf_with_applications_cannot_become_a_parent(queue_file):
    """CF-61: refused as a whole, with the queue's name; what was waiting goes on."""
    async with (
        real_daemon("--config", queue_file) as daemon,
        follow(daemon.url) as events,
        connect(daemon.url, rm_id="rm-1") as rm,
    ):
        await rm.request(application(queue="root.a"))
        queue_file.write_text(tree(queue("a", queue("child")), queue("b", max={"vcore": 1})))
        event = await next_event(events, "QUEUE_CONFIG", "configuration rejected")
        assert "root.a cannot become a parent" in event.message
        assert (await daemon.state())["queues"]["root.b"]["max"] != {"vcore": 1}
        await rm.request(node())
        await rm.request(asks("t1"))
        assert await next_allocated(rm) == [("t1", "n1")]


async def test_max_below_usage_kills_nothing_and_places_nothing(queue_file):
    """Usage above a lowered max is left to shrink; only then does something new start."""
    async with (
        real_daemon("--config", queue_file) as daemon,
        follow(daemon.url) as events,
        connect(daemon.url, rm_id="rm-1") as rm,
    ):
        await rm.request(node(vcore=10_000))
        await rm.request(application(queue="root.a"))
        await rm.request(asks("t1", "t2", "t3"))
        await next_allocated(rm, 3)
        queue_file.write_text(tree(queue("a", max={"vcore": 1500}), queue("b")))
        await next_event(events, "QUEUE_CONFIG", "configuration accepted")
        await rm.request(asks("t4"))
        assert (await daemon.state())["queues"]["root.a"]["allocated"] == {"vcore": 3000}
        await rm.request(released("t1", "t2"))
        assert (await daemon.state())["queues"]["root.a"]["allocated"] == {"vcore": 1000}
        await rm.request(released("t3"))
        assert await next_allocated(rm) == [("t4", "n1")]


async def test_a_removed_queue_drains(queue_file):
    """QU-95: its application keeps running and being scheduled, new ones are refused, coming back makes it Active."""
    async with (
        real_daemon("--config", queue_file) as daemon,
        follow(daemon.url) as events,
        connect(daemon.url, rm_id="rm-1") as rm,
    ):
        await rm.request(node(vcore=10_000))
        await rm.request(application(queue="root.a"))
        await rm.request(asks("t1"))
        queue_file.write_text(tree(queue("b")))
        await next_event(events, "QUEUE_CONFIG", "configuration accepted")
        assert (await daemon.state())["queues"]["root.a"]["state"] == "Draining"
        await rm.request(asks("t2"))
        assert await next_allocated(rm, 2) == [("t1", "n1"), ("t2", "n1")]
        with pytest.raises(Refused, match=r"NO_QUEUE: .*queue root\.a is draining"):
            await rm.request(application("app-2", queue="root.a"))
        assert (await daemon.state())["applications"]["app-2"]["state"] == "Rejected"
        queue_file.write_text(FIRST)
        await next_event(events, "QUEUE_CONFIG", "configuration accepted")
        assert (await daemon.state())["queues"]["root.a"]["state"] == "Active"


def test_a_drained_queue_disappears(tmp_path):
    """QU-96: first 30 s in which the application may still come back, then the cleaner's next round; the oracle agrees."""
    path = tmp_path / "drain.json"
    messages = [
        {"at": 0} | wire(node(vcore=2000)),
        {"at": 0} | wire(application(queue="root.a")),
        {"at": 0} | wire(asks("t1")),
        {"at": 5, "type": "UpdateConfigurationRequest", "config": tree(queue("b"))},
        {"at": 21} | wire(released("t1")),
    ]
    path.write_text(json.dumps({"name": "drain", "config": FIRST, "until": 70, "messages": messages}))
    outcome = simulate_with_actors(load(path))
    told = [(fact.at_ns / 10**9, fact) for fact in outcome.facts]
    changes = [(at, fact.state) for at, fact in told if isinstance(fact, QueueStateChanged | ApplicationChanged)]
    assert [change for change in changes if change[1] in ("Draining", "Completing", "Completed")] == [
        (5, "Draining"),
        (21, "Completing"),
        (51, "Completed"),
    ]
    assert [at for at, fact in told if isinstance(fact, Released)] == [21]
    assert [(at, fact.queue) for at, fact in told if isinstance(fact, QueueRemoved)] == [(61, "root.a")]
    assert set(outcome.final.queues) == {"root", "root.b"}
    assert outcome == simulate(load(path))


async def test_configuration_over_the_socket(queue_file):
    """A configuration is applied with the checksum of the present one, and refused with another; mistakes have their places."""
    second = tree(queue("a"), queue("b"), queue("c"))
    checksum = queuefile.load(FIRST).checksum
    async with (
        real_daemon("--config", queue_file) as daemon,
        follow(daemon.url) as events,
        connect(daemon.url, rm_id="rm-1") as rm,
    ):
        before = await daemon.state()
        with pytest.raises(RequestRefused) as refused:
            await rm.request(si.UpdateConfigurationRequest(config=second, if_checksum="0" * 64))
        assert (refused.value.code, refused.value.path) == ("CHECKSUM_MISMATCH", "ifChecksum")
        assert checksum in refused.value.message
        with pytest.raises(RequestRefused, match="config:2:1: not YAML") as refused:
            await rm.request(si.UpdateConfigurationRequest(config="partitions: [{}"))
        assert refused.value.code == "CONFIG_REFUSED"
        many = "partitions: []\n" + "bad: 1\n" * 1000
        with pytest.raises(RequestRefused, match=r"and [0-9]{3,} more$") as refused:  # CF-52
            await rm.request(si.UpdateConfigurationRequest(config=many))
        assert len(refused.value.message) < 4000
        assert (await daemon.wait_logged("config_refused", 3))["reason"] == refused.value.message.partition(": ")[2]
        assert await daemon.state() == before
        await rm.request(si.UpdateConfigurationRequest(config=second, if_checksum=checksum))
        await next_event(events, "QUEUE_CONFIG", "configuration accepted")
        assert "root.c" in (await daemon.state())["queues"]
        with pytest.raises(RequestRefused, match="CHECKSUM_MISMATCH"):
            await rm.request(si.UpdateConfigurationRequest(config=FIRST, if_checksum=checksum))


async def test_configuration_with_the_registration(queue_file):
    """A registration may bring one; a bad one refuses the registration, and the next one gets in (SC-140)."""
    async with real_daemon("--config", queue_file) as daemon:
        with pytest.raises(RequestRefused, match="CONFIG_REFUSED"):
            async with connect(daemon.url, rm_id="rm-1", config="partitions: 3"):
                pass
        async with connect(daemon.url, rm_id="rm-1", config=tree(queue("mine"))):
            assert (await daemon.state())["queues"]["root.mine"]["state"] == "Active"


def released(*keys):
    entries = [si.AllocationRelease(application_id="app-1", allocation_key=key) for key in keys]
    return si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=entries))


def wire(request):
    return msgspec.to_builtins(request)
