"""``ykactor submit`` and what was in the daemon before: it changes only what its options say, and removes what it created."""

import re
import signal
from contextlib import asynccontextmanager

import pytest
from daemon import application, asks, next_allocated, node, run_command, running_command, state_of
from daemonhere import daemon_here

from ykactor.client import connect, follow
from ykactor.wire.si import messages as si

SCENARIO = """
name: small
config: |
  partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: theirs}]}]}]
until: 1
messages:
  - {at: 0, type: NodeRequest, nodes: [{nodeID: s1, action: CREATE, schedulableResource: {vcore: "4"}}]}
  - at: 0
    type: ApplicationRequest
    new: [{applicationID: mine, ugi: {user: alice}, queueName: root.own, tags: {namespace: own}}]
  - {at: 0, type: AllocationRequest, allocations: [{allocationKey: t1, applicationID: mine, resourcePerAlloc: {vcore: "1"}}]}
"""
OWN = """
partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: own}]}]}]
"""


async def contents(url):
    """The nodes, applications and queues of the daemon."""
    state = await state_of(url)
    return sorted(state["nodes"]), sorted(state["applications"]), sorted(state["queues"])


@pytest.mark.parametrize(
    ("named", "line"),
    [
        ("root.None", "application mine accepted in root.own by the placement rules, although it names root.none"),
        ("Own", "application mine accepted in root.own"),
        ("root.own", "application mine accepted in root.own"),
    ],
)
async def test_another_queue_than_the_application_names(scenario, named, line):
    """Placement rules may choose another queue: this is said, because the scenario does not show it."""
    config = OWN.replace("{name: default,", "{name: default, placementrules: [{name: fixed, value: root.own}],")
    scenario.write_text(SCENARIO.replace("queueName: root.own", f"queueName: {named}"))
    async with daemon_here(config) as (_, url):
        output, _ = await run_command("submit", scenario, "--url", url)
    assert line in [printed.split(maxsplit=1)[1] for printed in output.splitlines()]


async def test_keeps_the_configuration(scenario):
    """Neither the configuration of the scenario nor one in its messages is sent; the latter is reported."""
    scenario.write_text(SCENARIO + '  - {at: 1, type: UpdateConfigurationRequest, config: ""}\n')
    async with daemon_here(OWN) as (_, url):
        output, errors = await run_command("submit", scenario, "--url", url)
        assert " allocated t1 of mine on s1\n" in output
        assert errors == "not sent without --with-config: 1 UpdateConfigurationRequest\n"
        assert (await contents(url))[2] == ["root", "root.own"]


async def test_warns_of_numbers_that_are_probably_cores(scenario):
    """The warnings are those of ``simulate``, with line and column, before anything is sent."""
    scenario.write_text(SCENARIO.replace('vcore: "4"', "vcore: 4").replace('vcore: "1"', "vcore: 9"))
    _, errors = await run_command("submit", scenario, "--url", "ws://127.0.0.1:1", expect=1)
    assert [line.split(": the number")[0] for line in errors.splitlines()[:2]] == [
        f"warning: {scenario}:7:98: messages[0].nodes[0].schedulableResource.vcore",
        f"warning: {scenario}:11:119: messages[2].allocations[0].resourcePerAlloc.vcore",
    ]


async def test_with_config(scenario):
    """``--with-config`` says what it replaces, and replaces it."""
    async with daemon_here(OWN) as (_, url):
        output, errors = await run_command("submit", scenario, "--url", url, "--with-config")
        assert "application mine rejected" in output
        assert errors == (
            "small replaces the queue configuration of the daemon by these partitions: default (2 queues); "
            "other partitions are removed, other queues drain; this stays in force when the scenario ends\n"
        )
        assert "root.theirs" in (await contents(url))[2]


async def test_waits_for_a_configuration(scenario):
    """The request after an ``UpdateConfigurationRequest`` finds its queues, although the daemon reads it beside others."""
    queues = ", ".join(f"{{name: q{number}, resources: {{max: {{vcore: 1}}}}}}" for number in range(300))
    large = f"partitions: [{{name: default, queues: [{{name: root, submitacl: '*', queues: [{queues}]}}]}}]"
    scenario.write_text(
        SCENARIO + f'  - {{at: 1, type: UpdateConfigurationRequest, config: "{large}"}}\n'
        "  - {at: 1, type: ApplicationRequest, new: [{applicationID: late, ugi: {user: alice}, queueName: root.q299}]}\n"
    )
    async with daemon_here() as (_, url):
        output, _ = await run_command("submit", scenario, "--url", url, "--with-config")
        assert " application late accepted in root.q299\n" in output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SCENARIO.replace("name: theirs", "colour: red"), "small.yaml: config:1:"),
        ('{name: empty, config: "", until: 1}', "found an empty config, expected a queue configuration for --with-config"),
    ],
)
async def test_with_a_config_that_cannot_be_sent(scenario, text, expected):
    """A mistake is found before anything is sent."""
    scenario.write_text(text)
    _, errors = await run_command("submit", scenario, "--url", "ws://127.0.0.1:1", "--with-config", expect=1)
    assert expected in errors


async def test_removes_what_it_created(scenario):
    """Nodes and applications go, followers see it, and any other resource manager may register."""
    async with daemon_here() as (_, url):
        await run_command("submit", scenario, "--url", url)
        assert (await contents(url))[:2] == ([], [])
        async with follow(url, from_=0, kinds=["NODE_DECOMISSION"]) as events:
            assert (await events.__anext__()).object_id == "s1"
        await run_command("submit", scenario, "--url", url)
        async with connect(url, rm_id="rm-1") as rm:
            await rm.request(node())


GANG = """
name: gang
config: ""
until: 60
CONFIRM
messages:
  - {at: 0, type: NodeRequest, nodes: [{nodeID: s1, action: CREATE, schedulableResource: {vcore: "2"}}]}
  - {at: 0, type: ApplicationRequest, new: [
      {applicationID: g, ugi: {user: alice}, tags: {namespace: web}, placeholderAsk: {vcore: "2"}}]}
  - at: 1
    type: AllocationRequest
    allocations:
      - {allocationKey: p1, applicationID: g, placeholder: true, taskGroupName: w, resourcePerAlloc: {vcore: "1"}}
      - {allocationKey: p2, applicationID: g, placeholder: true, taskGroupName: w, resourcePerAlloc: {vcore: "1"}}
      - {allocationKey: r1, applicationID: g, taskGroupName: w, resourcePerAlloc: {vcore: "1"}}
      - {allocationKey: r2, applicationID: g, taskGroupName: w, resourcePerAlloc: {vcore: "1"}}
"""


@pytest.mark.parametrize("confirms", [True, False])
async def test_confirms_releases(scenario, confirms):
    """The command confirms like ``simulate``, unless the scenario has the confirmations: so real tasks replace placeholders."""
    scenario.write_text(GANG.replace("CONFIRM", "" if confirms else "confirmReleases: false"))
    async with daemon_here() as (_, url):
        output, _ = await run_command("submit", scenario, "--url", url, "--speed", "20")
    lines = [line.split(maxsplit=1)[1] for line in output.splitlines()]
    assert "released p1 of g: PLACEHOLDER_REPLACED" in lines
    replaced = {"allocated r1 of g on s1", "allocated r2 of g on s1"}
    assert replaced & set(lines) == (replaced if confirms else set())


RUNS = """
  - at: 0
    type: AllocationRequest
    allocations:
      - {allocationKey: r1, applicationID: mine, resourcePerAlloc: {vcore: "3"}, runSeconds: 0.2}
      - {allocationKey: r2, applicationID: mine, resourcePerAlloc: {vcore: "3"}, runSeconds: 0.2}
      - {allocationKey: r3, applicationID: mine, resourcePerAlloc: {vcore: "3"}, runSeconds: 0.2}
"""


async def test_ends_what_says_how_long_it_runs(scenario):
    """An ask with ``runSeconds`` is released that long after it started: the node has room for one of the three at a time."""
    scenario.write_text(SCENARIO.replace("until: 1\n", "until: 1000000\n") + RUNS)
    async with daemon_here() as (_, url), submitting(scenario, url, "--speed", "1") as process:
        printed = b""
        while b"released r3 of mine: STOPPED_BY_RM" not in printed:
            chunk = await process.stdout.receive_some()
            assert chunk, await process.stderr.receive_some()
            printed += chunk
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
        assert b"refused" not in printed


@asynccontextmanager
async def submitting(scenario, url, *options):
    """A ``submit`` that has placed its task and runs until it is stopped."""
    async with running_command("submit", scenario, "--url", url, "--speed", "0.0001", *options) as process:
        printed = b""
        while b"allocated t1" not in printed:
            chunk = await process.stdout.receive_some()
            assert chunk, await process.stderr.receive_some()
            printed += chunk
        yield process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_cleans_up_when_it_is_interrupted(scenario, number):
    """Ctrl-C and SIGTERM end the scenario early, which the summary and the exit code say, and the daemon is as before."""
    async with daemon_here() as (_, url):
        async with submitting(scenario, url) as process:
            process.send_signal(number)
            output = b"".join([chunk async for chunk in process.stdout])
            assert await process.wait() == 130
            *_, summary = output.decode().splitlines()
            assert re.match(r"small: interrupted after \d+\.\d of 1\.0 s, 3 of 3 requests sent, 0 refused; ", summary)
        assert (await contents(url))[:2] == ([], [])
        async with connect(url, rm_id="rm-1"):
            pass


async def test_second_submit_disturbs_nothing(scenario):
    """While one runs, another one is refused with the reason, and the first goes on."""
    async with daemon_here() as (_, url), submitting(scenario, url):
        output, errors = await run_command("submit", scenario, "--url", url, expect=1)
        assert output == ""
        assert "RM ykactor-submit-" in errors
        assert "it has been connected since 2" in errors
        assert (await contents(url))[:2] == (["s1"], ["mine"])


async def test_is_refused_by_another_resource_manager(scenario):
    """The error names the holder, says that it is not connected, and what ends its hold; nothing of it is lost."""
    async with daemon_here() as (_, url):
        async with connect(url, rm_id="rm-1") as rm:
            await rm.request(node())
        _, errors = await run_command("submit", scenario, "--url", url, expect=1)
        assert "RM rm-1 has been registered before" in errors
        assert "it has not been connected at least since 2" in errors
        assert (
            "'ykactor rm release rm-1' drops its nodes and applications and lets another one register; submit --rm-id" in errors
        )
        assert (await contents(url))[0] == ["n1"]


async def test_deregister_hands_over(scenario):
    """``ykactor rm release`` frees the daemon from its holder only, and drops what this has."""
    async with daemon_here() as (_, url):
        _, errors = await run_command("rm", "release", "rm-1", "--url", url, expect=1)
        assert errors == "Error: rm-1 is not registered, found no resource manager\n"
        async with connect(url, rm_id="rm-1") as rm:
            await rm.request(node())
        _, errors = await run_command("rm", "release", "rm-2", "--url", url, expect=1)
        assert errors == "Error: rm-2 is not registered, found rm-1\n"
        output, errors = await run_command("rm", "release", "rm-1", "--url", url)
        assert (output, errors) == ("rm-1 is deregistered; another resource manager may register\n", "")
        assert (await contents(url))[0] == []
        await run_command("submit", scenario, "--url", url)


async def test_joins_the_holder(scenario):
    """A submission with the id of the holder keeps all that it has, also what the scenario creates again; it stays the holder."""
    scenario.write_text(
        SCENARIO.replace("nodes: [", "nodes: [{nodeID: n1, action: CREATE}, ").replace(
            "until: 1\n", "until: 1\nwantsSchedulingStates: true\n"
        )
    )
    async with daemon_here() as (_, url):
        async with connect(url, rm_id="rm-1") as rm:
            await rm.request(node())
            await rm.request(application())
            await rm.request(asks("t0"))
            assert await next_allocated(rm) == [("t0", "n1")]
            await rm.request(asks("large", vcore=9000))
        output, _ = await run_command("submit", scenario, "--url", url, "--rm-id", "rm-1")
        assert "waiting large of app-1 (FAILED): can never fit: the largest node has 4 vcore, it wants 9; wants 9" in output
        assert "node s1 accepted" in output
        assert "node n1 rejected" in output
        state = await state_of(url)
        assert (sorted(state["nodes"]), sorted(state["applications"])) == (["n1"], ["app-1"])
        assert state["nodes"]["n1"]["allocated"] == {"vcore": 1000}
        async with connect(url, rm_id="rm-1", resume_from="now") as rm:
            await rm.request(si.NodeRequest())
