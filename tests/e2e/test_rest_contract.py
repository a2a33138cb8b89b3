"""The contract of Apache YuniKorn's REST API, route by route, on a daemon with real sockets."""

import gzip
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import yaml
from msgspec import structs
from restdaemon import Rest, application, asks, node, rest_daemon

from ykactor.actors.clock import Clock
from ykactor.core.records.encoding import decode
from ykactor.core.records.rows import ForeignRow
from ykactor.surfaces.http import history
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

CONFIG = """
partitions:
  - name: default
    placementrules:
      - {name: tag, value: namespace, create: true, parent: {name: fixed, value: root.b}, filter: {type: deny, users: [bob]}}
      - {name: provided}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            resources: {guaranteed: {vcore: 1}, max: {vcore: 3, memory: 8Gi}}
            maxapplications: 5
            properties: {application.sort.policy: fair, priority.offset: "7", preemption.delay: 90s}
            limits: [{limit: some, users: [alice], groups: [dev], maxapplications: 2, maxresources: {vcore: 2}}]
          - name: b
            parent: true
            childtemplate: {maxapplications: 3, resources: {max: {vcore: 2}}}
  - name: other
    queues: [{name: root, submitacl: "*", queues: [{name: x}]}]
"""
ERROR = {"status_code", "message", "description"}


@asynccontextmanager
async def populated() -> AsyncIterator[Rest]:
    """A node; ``app`` of alice in root.a, of which 2 of 3 tasks run, because of her limit; ``gone`` was rejected."""
    async with rest_daemon(CONFIG) as rest:
        await rest.submit(
            node("n1", **{"si/hostname": "host-1", "si/rackname": "rack-1", "zone": "z"}),
            application("app", "root.a", "alice", "dev"),
            asks("app", 3, **{"kubernetes.io/meta/podName": "pod"}),
            application("gone", "root.none", "bob"),
            si.ApplicationRequest(
                jobs=[si.JobReport(application_id="app", name="train", tasks=5, completed=1, cancelled=1)],
                records=[
                    si.TaskRecord(application_id="app", allocation_key="app-9", state="Completed", cpu_time=7, message="why")
                ],
            ),
        )
        yield rest


async def refused(rest: Rest, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, str]:
    answer = await rest.ask(f"/ws/v1/{path}", method, body)
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert set(answer.content) == ERROR
    assert answer.content["status_code"] == answer.status
    assert answer.content["description"] == answer.content["message"]
    return answer.status, answer.content["message"]


async def test_clusters_and_partitions() -> None:
    """One entry for each partition, totals, states that occur, numbers without a decimal point."""
    async with populated() as rest:
        first, second = await rest.read("clusters")
        assert (first["partition"], second["partition"], type(first["startTime"])) == ("default", "other", int)
        default, other = await rest.read("partitions")
        assert default["capacity"] == {
            "capacity": {"memory": 2**34, "vcore": 4000},
            "usedCapacity": {"vcore": 2000},
            "utilization": {"vcore": 50},
        }
        assert default["nodeSortingPolicy"] == {"type": "fair", "resourceWeights": {"memory": 1.0, "vcore": 1.0}}
        assert (default["preemptionEnabled"], default["quotaPreemptionEnabled"], default["state"]) == (True, False, "Active")
        assert (default["totalNodes"], default["totalContainers"]) == (1, 2)
        assert default["applications"] == {"Rejected": 1, "Running": 1, "total": 2}
        assert (other["capacity"], other["totalNodes"], other["applications"]) == ({}, 0, {"total": 0})


async def test_since_when_a_partition_has_its_state() -> None:
    """RE-2: active since this daemon has started it."""
    before_ns = Clock.of_the_system().now_ns()
    async with populated() as rest:
        for found in await rest.read("partitions"):
            assert (found["state"], before_ns <= found["lastStateTransitionTime"] <= rest.daemon.now_ns()) == ("Active", True)


async def test_queues() -> None:
    """The root with its tree; a single queue without children and without the name of the partition."""
    async with populated() as rest:
        root = await rest.read("partition/default/queues")
        assert (root["partition"], root["isLeaf"], root["isManaged"], root["sortingPolicy"]) == ("default", False, True, "fair")
        assert "parent" not in root
        assert root["maxResource"] == {"memory": 2**34, "vcore": 4000}
        leaf, parent = root["children"]
        assert leaf["properties"] == {
            "application.sort.policy": "fair",
            "priority.offset": "7",
            "preemption.delay": "90s",
        }
        assert (leaf["preemptionDelay"], leaf["quotaPreemptionDelay"], leaf["priorityOffset"]) == ("1m30s", "0s", 7)
        assert (leaf["maxRunningApps"], leaf["runningApps"], leaf["currentPriority"]) == (5, 1, 7)
        assert (leaf["guaranteedResource"], leaf["pendingResource"]) == ({"vcore": 1000}, {"vcore": 1000})
        assert (leaf["partition"], leaf["parent"], leaf["status"]) == ("", "root", "Active")
        assert parent["template"] == {"maxApplications": 3, "maxResource": {"vcore": 2000}}
        assert (parent["isLeaf"], parent["currentPriority"]) == (False, -(2**31))
        alone = await rest.read("partition/default/queue/root")
        assert (alone["childNames"], "children" in alone, alone["partition"]) == (["root.a", "root.b"], False, "")
        assert (await rest.read("partition/default/queue/root?subtree"))["children"] == root["children"]


async def test_names_of_queues_are_decoded_twice() -> None:
    """A queue with a slash is ``%252F``; ``%25zz`` is no escape; upper and lower case are the same."""
    text = 'partitions: [{name: default, queues: [{name: root, queues: [{name: "a/b"}, {name: "c@d"}]}]}]'
    async with rest_daemon(text) as rest:
        assert (await rest.read("partition/default/queue/ROOT.A%252Fb"))["queuename"] == "root.a/b"
        assert (await rest.read("partition/default/queue/root.c@d"))["queuename"] == "root.c@d"
        assert (await rest.ask("/ws/v1/partition/default/queue/root.a%2Fb")).status == 404
        assert (await refused(rest, "partition/default/queue/root%25zz"))[0] == 400
        assert (await refused(rest, "partition/default/queue/root..a"))[0] == 400
        assert (await refused(rest, "partition/default/queue/root.a+b"))[0] == 400
        assert (await refused(rest, f"partition/default/queue/root.{'q' * 65}"))[0] == 400


async def test_applications() -> None:
    """Requests that wait, allocations, and texts for priorities."""
    async with populated() as rest:
        (found,) = await rest.read("partition/default/queue/root.a/applications")
        (request,) = found["requests"]
        assert (request["allocationKey"], request["priority"], request["applicationId"]) == ("app-0", "0", "app")
        assert request["resource"] == {"vcore": 1000}
        allocation = found["allocations"][0]
        assert allocation["allocationTags"] == {"kubernetes.io/meta/podName": "pod"}
        assert (allocation["priority"], allocation["nodeId"], allocation["applicationId"]) == ("1", "n1", "app")
        assert allocation["allocationDelay"] == allocation["allocationTime"] - allocation["requestTime"]
        assert (found["applicationState"], found["user"], found["groups"]) == ("Running", "alice", ["dev"])
        assert (found["usedResource"], found["pendingResource"]) == ({"vcore": 2000}, {"vcore": 1000})
        assert found["resourceHistory"] == {}
        assert "maxRequestPriority" not in found  # 0
        for path in ("queue/root.a/applications/ACTIVE", "applications/active", "applications/Active?status=Running"):
            (other,) = await rest.read(f"partition/default/{path}")
            assert other["applicationID"] == "app"
        assert await rest.read("partition/default/applications/active?status=new") == []
        assert len(await rest.read("partition/default/applications/active?status=")) == 1
        assert await rest.read("partition/default/queue/root.b/applications") == []
        (gone,) = await rest.read("partition/default/applications/rejected?status=nonsense")
        assert (gone["applicationID"], gone["applicationState"]) == ("gone", "Rejected")
        assert gone["rejectedMessage"]
        assert (await rest.read("partition/default/queue/root.a/application/app"))["applicationID"] == "app"


async def test_nodes() -> None:
    """Amounts, names from attributes, ten bands of use."""
    async with populated() as rest:
        (found,) = await rest.read("partition/default/nodes")
        assert (found["hostName"], found["rackName"], found["attributes"]["zone"]) == ("host-1", "rack-1", "z")
        assert (found["capacity"], found["allocated"]) == ({"memory": 2**34, "vcore": 4000}, {"vcore": 2000})
        assert (found["schedulable"], found["isReserved"]) == (True, False)
        assert [task["allocationKey"] for task in found["allocations"]] == ["app-1", "app-2"]
        default, other = await rest.read("scheduler/node-utilizations")
        assert (default["partition"], other["utilizations"]) == ("default", [])
        memory, vcore = default["utilizations"]
        assert [band["bucketName"] for band in vcore["utilization"]] == [f"{low}-{low + 10}%" for low in range(0, 100, 10)]
        assert (memory["utilization"][0], vcore["utilization"][4]) == (
            {"bucketName": "0-10%", "numOfNodes": 1, "nodeNames": ["n1"]},
            {"bucketName": "40-50%", "numOfNodes": 1, "nodeNames": ["n1"]},
        )


async def test_foreign_allocations() -> None:
    """RE-4: when each was created: by its tag, else when it was first reported; only one that is ``static`` stays."""

    def strangers(size: int) -> si.AllocationRequest:
        tags = {"none": {}, "dated": {"creationTime": "1700000000"}, "fixed": {"foreign": "static"}}
        return si.AllocationRequest(
            allocations=[
                si.Allocation(
                    allocation_key=key,
                    node_id="n1",
                    resource_per_alloc={"vcore": size},
                    allocation_tags={"foreign": "default"} | own,
                )
                for key, own in tags.items()
            ]
        )

    async with populated() as rest:
        before_ns = rest.daemon.now_ns()
        await rest.submit(strangers(1))
        after_ns = rest.daemon.now_ns()
        await rest.submit(strangers(2))
        (found,) = await rest.read("partition/default/nodes")
        dated, fixed, none = found["foreignAllocations"]
        assert dated["allocationTime"] == 1_700_000_000 * 10**9
        assert all(before_ns <= each["allocationTime"] <= after_ns for each in (fixed, none))
        assert (dated["preemptable"], none["preemptable"], "preemptable" in fixed) == (True, True, False)
        assert [each["resource"] for each in (dated, fixed, none)] == [{"vcore": 2}] * 3


async def test_a_foreign_allocation_of_an_older_journal_has_no_time() -> None:
    """RE-4: a row that was written before does not have it, and nothing is made up."""
    _, _, row = decode(
        b'["default","foreign","f"]', b'{"node_id":"n1","spec":{"allocation_key":"f","application_id":"","resource":{}}}'
    )
    assert isinstance(row, ForeignRow)
    async with populated() as rest:
        rest.daemon.registry("default").nodes["n1"].restore_foreign(structs.replace(row.spec, created_ns=row.created_ns))
        (found,) = await rest.read("partition/default/nodes")
        assert found["foreignAllocations"] == [{"allocationKey": "f", "priority": "0", "nodeId": "n1", "preemptable": True}]


async def test_placement_rules() -> None:
    """Rules come in order, with values as texts and ``recovery`` at the end; without rules there is ``provided``."""
    async with populated() as rest:
        assert await rest.read("partition/default/placementrules") == [
            {
                "name": "tag",
                "parameters": {"create": "true", "tagName": "namespace"},
                "filter": {"type": "deny", "userList": ["bob"]},
                "parentRule": {
                    "name": "fixed",
                    "parameters": {"create": "false", "qualified": "true", "queue": "root.b"},
                },
            },
            {"name": "provided", "parameters": {"create": "false"}},
            {"name": "recovery", "parameters": {"queue": "root.@recovery@"}},
        ]
        assert [rule["name"] for rule in await rest.read("partition/other/placementrules")] == ["provided", "recovery"]


async def test_limits_of_everybody_are_those_of_each_user() -> None:
    """QU-62, RE-5: ``*`` is the limit of who is not named in the queue, and of nobody else."""
    text = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        limits: [{limit: all, users: ["*"], maxresources: {memory: 4Gi}}]
        queues:
          - name: a
            limits:
              - {limit: own, users: [alice], maxapplications: 2}
              - {limit: all, users: ["*"], maxapplications: 9, maxresources: {vcore: 3}}
"""
    async with rest_daemon(text) as rest:
        await rest.submit(node("n1"), application("one", "root.a", "alice"), application("two", "root.a", "bob"))
        await rest.submit(asks("one", 1), asks("two", 1))
        alice, bob = await rest.read("partition/default/usage/users")
        assert (alice["userName"], bob["userName"]) == ("alice", "bob")  # nobody is called *
        shown = [(user["queues"], *user["queues"]["children"]) for user in (alice, bob)]
        limits = [[(use.get("maxResources"), use.get("maxApplications")) for use in path] for path in shown]
        assert limits == [
            [({"memory": 2**32}, None), (None, 2)],
            [({"memory": 2**32}, None), ({"vcore": 3000}, 9)],
        ]


async def test_usage() -> None:
    """Users and groups with what they use and may use, from root."""
    async with populated() as rest:
        (user,) = await rest.read("partition/default/usage/users")
        assert user == await rest.read("partition/default/usage/user/alice")
        assert (user["userName"], user["queues"]["queuePath"]) == ("alice", "root")
        (leaf,) = user["queues"]["children"]
        assert leaf == {
            "queuePath": "root.a",
            "resourceUsage": {"vcore": 2000},
            "runningApplications": ["app"],
            "maxResources": {"vcore": 2000},
            "maxApplications": 2,
        }
        group = await rest.read("partition/default/usage/group/dev")
        assert (group["groupName"], group["applications"], user["groups"]) == ("dev", ["app"], {"app": "dev"})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        # which check comes first
        ("partition/none/queue/root..x", (404, "Partition not found")),
        ("partition/none/queue/root.x/applications", (404, "Partition not found")),
        ("partition/default/queue/root.x/applications", (404, "Queue not found")),
        ("partition/none/queue/root.a/applications/none", (404, "Partition not found")),
        ("partition/default/queue/root.x/applications/none", (404, "Queue not found")),
        ("partition/default/queue/root.x/application/app", (404, "Queue not found")),
        ("partition/default/queue/root.b/application/app", (404, "Application not found")),
        ("partition/none/applications/none", (404, "Partition not found")),
        ("partition/default/application/gone", (404, "Application not found")),
        ("partition/default/node/n2", (404, "Node not found")),
        ("partition/default/usage/user/1x", (400, "Invalid user name")),
        ("partition/default/usage/user/bob", (404, "User not found")),
        ("partition/default/usage/group/a@b", (400, "Invalid group name")),
        ("partition/default/usage/group/none", (404, "Group not found")),
    ],
)
async def test_refusals(shared: Rest, path: str, expected: tuple[int, str]) -> None:
    """Fixed texts, and the order of the checks."""
    assert await refused(shared, path) == expected


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("partition/none/queue/root..x/applications", 400),  # before the partition
        ("partition/default/queue/root..x", 400),
        ("partition/default/queue/root.a/applications/completed", 400),
        ("partition/default/queue/root.a/applications/active?status=none", 400),
        ("partition/default/applications/none", 400),
        ("partition/default/applications/active?status=none", 400),
        ("events/batch?count=0", 400),
        ("events/batch?count=-1", 400),
        ("events/batch?start=x", 400),
        ("events/batch?start=%C2%B2", 400),
        ("events/batch?start=99999999999999999999999", 400),
        ("events/stream?count=x", 400),
    ],
)
async def test_refusals_that_name_the_cause(shared: Rest, path: str, status: int) -> None:
    """Their texts are free."""
    assert (await refused(shared, path))[0] == status


@pytest.fixture
async def shared() -> AsyncIterator[Rest]:
    async with populated() as rest:
        yield rest


async def test_config() -> None:
    """YAML; JSON if ``Accept`` is exactly that; quantities as written; completed; no line feed after JSON."""
    async with rest_daemon(CONFIG) as rest:
        found = await rest.ask("/ws/v1/config", Accept="application/json")
        assert found.headers["content-type"] == "application/json; charset=UTF-8"
        assert not found.body.endswith(b"\n")
        default = found.content["Partitions"][0]
        root = default["Queues"][0]
        assert (root["Name"], root["Parent"], root["SubmitACL"]) == ("root", True, "*")
        assert (root["Resources"], root["ChildTemplate"]) == ({}, {"Resources": {}})
        assert root["Queues"][0]["Resources"] == {"Guaranteed": {"vcore": "1"}, "Max": {"vcore": "3", "memory": "8Gi"}}
        assert (default["NodeSortPolicy"], default["Preemption"], default["UserGroupResolver"]) == ({"Type": ""}, {}, {})
        assert default["PlacementRules"][0]["Parent"] == {"Name": "fixed", "Filter": {"Type": ""}, "Value": "root.b"}
        assert found.content["Checksum"] == rest.daemon.config.checksum
        assert (found.content["DeadlockDetectionEnabled"], found.content["DeadlockTimeoutSeconds"]) == (False, 60)

        for accept in ("", "application/json, text/plain"):
            text = await rest.ask("/ws/v1/config", Accept=accept)
            assert text.headers["content-type"] == "application/x-yaml; charset=UTF-8"
            shown = yaml.safe_load(text.body)
            assert shown["checksum"] == rest.daemon.config.checksum
            leaf = shown["partitions"][0]["queues"][0]["queues"][0]
            assert leaf["resources"] == {"guaranteed": {"vcore": "1"}, "max": {"vcore": "3", "memory": "8Gi"}}
            assert "childtemplate" not in leaf
            assert leaf["limits"][0]["maxresources"] == {"vcore": "2"}
        # what is shown is a configuration with the same meaning
        verdict = await rest.ask("/ws/v1/validate-conf", "POST", text.body.partition(b"checksum:")[0])
        assert verdict.content["allowed"] is True, verdict.content


async def test_a_large_configuration_is_written_by_a_process() -> None:
    """A large configuration has the same content as a small one."""
    queues = "".join(f"\n          - name: q{number}" for number in range(600))
    async with rest_daemon(f"partitions:\n  - name: default\n    queues:\n      - name: root\n        queues:{queues}\n") as rest:
        found = (await rest.ask("/ws/v1/config", Accept="application/json")).content
        assert len(found["Partitions"][0]["Queues"][0]["Queues"]) == 600


async def test_validate_conf() -> None:
    """Always 200: allowed with the checksum, or the reason; unknown keys are refused; an empty body is allowed."""
    async with rest_daemon(CONFIG) as rest:
        same = await rest.ask("/ws/v1/validate-conf", "POST", CONFIG.encode(), content_type="application/json")
        assert same.content == {"allowed": True, "checksum": rest.daemon.config.checksum, "checksumMatch": True}
        assert same.headers["access-control-allow-methods"] == "OPTIONS, POST"
        empty = (await rest.ask("/ws/v1/validate-conf", "POST", b"")).content
        assert (empty["allowed"], "checksumMatch" in empty) == (True, False)
        for body in (b"partitions: [{name: default, wrong: 1}]", b"\xff\xfe", b"x" * 20_000):
            found = await rest.ask("/ws/v1/validate-conf", "POST", body)
            assert (found.status, found.content["allowed"], set(found.content)) == (200, False, {"allowed", "reason"})
        wrong = await rest.ask("/ws/v1/validate-conf")
        assert (wrong.status, wrong.headers["allow"]) == (405, "OPTIONS, POST")


async def test_health() -> None:
    """Names in capitals; ``/readyz`` says whether the daemon serves, and the status of the checks says the same, at once."""
    async with populated() as rest:
        found = await rest.read("scheduler/healthcheck")
        assert found["Healthy"] is True, found
        assert [check["Name"] for check in found["HealthChecks"]][:2] == ["Scheduling errors", "Consistency of data"]
        assert all(check["Succeeded"] for check in found["HealthChecks"])
        for path in ("/livez", "/readyz"):
            answer = await rest.ask(path)
            assert (answer.status, answer.body) == (200, b"ok\n")
        rest.daemon.health.problems = lambda: ["the journal cannot be written"]
        assert ((await rest.ask("/livez")).status, (await rest.ask("/readyz")).status) == (200, 503)
        unwell = await rest.ask("/ws/v1/scheduler/healthcheck")
        assert (unwell.status, unwell.content["Healthy"]) == (503, False)
        assert unwell.content["HealthChecks"][0]["DiagnosisMessage"] == "the journal cannot be written"


async def test_a_violated_invariant_is_unhealthy() -> None:
    """The checks look at the live state; the message names what is wrong."""
    async with populated() as rest:
        rest.daemon.registry("default").nodes["n1"].allocated["vcore"] += 1
        found = await rest.read("scheduler/healthcheck")
        broken = [check["DiagnosisMessage"] for check in found["HealthChecks"] if not check["Succeeded"]]
        assert (found["Healthy"], any("node n1: allocated" in text for text in broken)) == (False, True)


async def test_history_begins_empty() -> None:
    """The history has no sample in the first minute."""
    async with rest_daemon() as rest:
        assert await rest.read("history/apps") == []
        assert await rest.read("history/containers") == []


async def test_batch() -> None:
    """Ids from 0; a start outside is null with the bounds; ``count`` is cut."""
    async with rest_daemon() as rest:
        await rest.submit(node("n1"))
        found = await rest.read("events/batch")
        assert (found["InstanceUUID"], found["LowestID"]) == (str(rest.daemon.terms.present), 0)
        records = found["EventRecords"]
        assert len(records) == found["HighestID"] + 1
        added = next(record for record in records if record.get("objectID") == "n1" and record.get("eventChangeType") == 2)
        assert (added["type"], added["resource"]) == (
            3,
            {"resources": {"memory": {"value": 2**34}, "vcore": {"value": 4000}}},
        )
        assert (await rest.read("events/batch?start=1&count=1"))["EventRecords"] == records[1:2]
        beyond = await rest.read(f"events/batch?start={len(records)}")
        assert (beyond["EventRecords"], beyond["LowestID"], beyond["HighestID"]) == (None, 0, len(records) - 1)
        assert (await rest.read("events/batch?count=99999999999"))["EventRecords"] == records


async def test_pages_of_debug() -> None:
    """A redirect from the old paths; one document with all; stacks; nothing for the profiler of Go."""
    async with populated() as rest:
        old = await rest.ask("/ws/v1/fullstatedump")
        assert (old.status, old.headers["location"]) == (301, "/debug/fullstatedump")
        dump = json.loads((await rest.ask("/debug/fullstatedump")).body)
        assert [application["applicationID"] for application in dump["applications"]] == ["app", "gone"]
        assert [found["partitionName"] for found in dump["nodes"]] == ["default", "other"]
        assert dump["nodes"][0]["nodesInfo"][0]["nodeID"] == "n1"
        assert (len(dump["queues"]), dump["appHistory"], dump["clusterInfo"][0]["partition"]) == (2, [], "default")
        assert (dump["config"]["Checksum"], type(dump["timestamp"])) == (rest.daemon.config.checksum, int)
        assert dump["placementRules"][1]["partition"] == "other"
        stack = await rest.ask("/debug/stack")
        assert (stack.status, b"task " in stack.body, b"thread " in stack.body) == (200, True, True)
        assert (await rest.ask("/debug/pprof/heap")).status == 404


async def test_every_route_answers_head_and_options(shared: Rest) -> None:
    """``HEAD`` is ``GET`` without a body; ``OPTIONS`` has the headers that a browser asks for before it sends a token."""
    for path in ("clusters", "partition/default/queues", "config", "events/stream"):
        head = await shared.ask(f"/ws/v1/{path}", "HEAD")
        assert (head.status, head.body) == (200, b"")
        options = await shared.ask(f"/ws/v1/{path}", "OPTIONS")
        assert (options.status, options.body, options.headers["allow"]) == (200, b"", "GET, OPTIONS")
        assert "Authorization" in options.headers["access-control-allow-headers"]


async def test_what_is_no_route(shared: Rest) -> None:
    """JSON as of other refusals, for unknown paths and wrong methods."""
    unknown = await shared.ask("/ws/v1/none")
    assert (unknown.status, unknown.content["message"]) == (404, "Page not found")
    wrong = await shared.ask("/ws/v1/partitions", "DELETE")
    assert (wrong.status, wrong.content["message"], wrong.headers["allow"]) == (405, "Method not allowed", "GET, OPTIONS")
    for answer in (unknown, wrong):
        assert answer.content["status_code"] == answer.status
        assert answer.headers["content-type"] == "application/json; charset=UTF-8"


async def test_paths_are_repaired(shared: Rest) -> None:
    """301 for ``GET``, 308 for others; the query stays; the target is on this host whatever the request says."""
    found = await shared.ask("//ws/v1/Partition/default/queue/root.A/?subtree=1", Host="127.0.0.1")
    assert (found.status, found.headers["location"]) == (301, "/ws/v1/partition/default/queue/root.A?subtree=1")
    assert "access-control-allow-origin" not in found.headers
    assert (await shared.ask("/ws/v1/validate-conf/", "POST", b"")).status == 308
    assert (await shared.ask("/ws/v1/partition//queues")).status == 404
    for old in ("stack", "fullstatedump"):
        moved = await shared.ask(f"/ws/v1/{old}?pretty=1&x=%2F")
        assert (moved.status, moved.headers["location"]) == (301, f"/debug/{old}?pretty=1&x=%2F")
    coded = await shared.ask("/ws/v1/partition/default/queue/root.a%252Fb/")
    assert coded.headers["location"] == "/ws/v1/partition/default/queue/root.a%252Fb"


async def test_what_html_could_mean_is_escaped() -> None:
    """``<``, ``>`` and ``&`` in texts."""
    async with rest_daemon() as rest:
        await rest.submit(node("n1", label="<b>&"))
        answer = await rest.ask("/ws/v1/partition/default/nodes")
        assert rb'"\u003cb\u003e\u0026"' in answer.body
        assert answer.content[0]["attributes"]["label"] == "<b>&"


async def test_compression(shared: Rest) -> None:
    """Answers from 1400 bytes on are compressed for clients that list gzip without ``q=0``; the stream of events never is."""
    small, large = "/ws/v1/clusters", "/ws/v1/partition/default/queues"
    assert "content-encoding" not in (await shared.ask(small, Accept_Encoding="gzip")).headers
    packed, plain = await shared.ask(large, Accept_Encoding="br, gzip;q=0.5"), await shared.ask(large)
    assert (packed.headers["content-encoding"], packed.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert json.loads(gzip.decompress(packed.body)) == plain.content
    assert "content-encoding" not in (await shared.ask(large, Accept_Encoding="gzip;q=0.0")).headers


_ALLOCATION = {"allocationKey": str, "allocationTags": dict, "resource": dict, "priority": str, "nodeId": str}
_QUEUE = {
    "queuename": str,
    "status": str,
    "partition": str,
    "isLeaf": bool,
    "isManaged": bool,
    "maxResource": dict,
    "allocatedResource": dict,
    "pendingResource": dict,
    "absUsedCapacity": {"vcore": int},
}
#: What the web UI reads of each answer. A list stands for its items; a field must be in some of them.
_READ_BY_THE_WEB_UI: dict[str, Any] = {
    "clusters": [{"clusterName": str, "rmBuildInformation": [{"buildDate": str, "buildVersion": str, "rmId": str}]}],
    "partitions": [
        {
            "name": str,
            "nodeSortingPolicy": {"type": str},
            "totalNodes": int,
            "totalContainers": int,
            "applications": {"total": int, "Running": int},
        }
    ],
    "scheduler/node-utilizations": [
        {
            "partition": str,
            "utilizations": [{"type": str, "utilization": [{"bucketName": str, "numOfNodes": int, "nodeNames": list}]}],
        }
    ],
    "partition/default/queues": {
        **_QUEUE,
        "children": [{**_QUEUE, "guaranteedResource": dict, "properties": dict, "template": dict}],
    },
    "partition/default/queue/root.a/applications": [
        {
            "applicationID": str,
            "applicationState": str,
            "submissionTime": int,
            "stateLog": [{"time": int}],
            "usedResource": dict,
            "pendingResource": dict,
            "maxUsedResource": dict,
            "allocations": [{**_ALLOCATION, "applicationId": str}],
        }
    ],
    "partition/default/applications/rejected": [{"finishedTime": int}],
    "partition/default/nodes": [
        {
            "nodeID": str,
            "hostName": str,
            "rackName": str,
            "attributes": dict,
            "capacity": dict,
            "allocated": dict,
            "occupied": dict,
            "available": dict,
            "utilized": {"vcore": int},
            "allocations": [{**_ALLOCATION, "applicationId": str}],
            "foreignAllocations": [_ALLOCATION],
        }
    ],
    "scheduler/healthcheck": {
        "Healthy": bool,
        "HealthChecks": [{"Name": str, "Description": str, "Succeeded": bool, "DiagnosisMessage": str}],
    },
    "history/apps": [{"timestamp": int, "totalApplications": str}],
    "history/containers": [{"timestamp": int, "totalContainers": str}],
}


async def test_what_the_web_ui_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field that it reads is there, with the type that it expects."""
    monkeypatch.setattr(history, "SAMPLE_S", 0.1)
    foreign = si.Allocation(
        allocation_key="other", node_id="n1", resource_per_alloc={"vcore": 1}, allocation_tags={"foreign": "default"}
    )
    async with populated() as rest:
        await rest.submit(si.AllocationRequest(allocations=[foreign]))
        rest.daemon.outboxes.renew("rm", JSON).build_info = {"buildDate": "today", "buildVersion": "1", "rmId": "other"}
        rest.daemon.registry("default").nodes["n1"].allocated["vcore"] += 1  # so that a check fails, and says why
        while await rest.read("history/apps") == []:
            pass
        for path, expected in _READ_BY_THE_WEB_UI.items():
            answer = await rest.ask(f"/ws/v1/{path}", Accept="application/json, text/plain, */*")
            assert answer.headers["access-control-allow-origin"] == "*"
            assert list(_lacking([answer.content], expected, path)) == []
        rest.daemon.registry("default").nodes["n1"].allocated["vcore"] -= 1
        assert (await rest.read("clusters"))[0]["rmBuildInformation"][0]["rmId"] == "rm"


def _lacking(found: list[Any], expected: Any, where: str) -> Iterator[str]:
    """The places where nothing, or something else, is among the values that are found."""
    if isinstance(expected, list):
        yield from _lacking([item for each in found for item in each], expected[0], f"{where}[]")
    elif isinstance(expected, dict):
        for name, inner in expected.items():
            yield from _lacking([each[name] for each in found if name in each], inner, f"{where}.{name}")
    elif not found or any(type(each) is not expected for each in found):
        yield where


async def test_the_web_ui_without_nodes() -> None:
    """The answers have 0, ``{}`` and ``[]`` where Apache YuniKorn leaves out or sends ``null`` and the web UI fails."""
    async with rest_daemon() as rest:
        (partition,) = await rest.read("partitions")
        assert (partition["totalNodes"], partition["totalContainers"], partition["applications"]) == (0, 0, {"total": 0})
        assert [found["utilizations"] for found in await rest.read("scheduler/node-utilizations")] == [[]]
        info = si.NodeInfo(node_id="bare", action="CREATE", schedulable_resource={"vcore": 1})
        await rest.submit(si.NodeRequest(nodes=[info]))
        assert (await rest.read("partition/default/nodes"))[0]["attributes"] == {}


async def test_a_partition_has_a_sample_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples have what is used and pending, and why asks wait, in the order of time; ``after`` leaves out older ones."""
    monkeypatch.setattr(history, "SAMPLE_S", 0.05)
    async with populated() as rest:
        found: list[Any] = []
        while not (found and found[-1].get("allocations") == 2):
            found = await rest.read("partition/default/history")
        last, times = found[-1], [sample["at"] for sample in found]
        assert [last[amounts]["vcore"] for amounts in ("capacity", "allocated", "pending")] == [4000, 2000, 1000]
        assert (last["applications"], last["pendingAsks"], last["reasons"], last["oldestWait"] > 0) == (1, 1, {"user": 1}, True)
        assert times == sorted(times)
        later = await rest.read(f"partition/default/history?after={times[-1]}")
        assert all(sample["at"] > times[-1] for sample in later)
        assert (await rest.ask("/ws/v1/partition/default/history?after=-1")).status == 400
        attributes = {"si/hostname": "host-1", "si/rackname": "rack-1", "zone": "z"}
        assert await rest.read("partition/default/node-attributes") == {"n1": attributes}
