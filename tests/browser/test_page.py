"""The contents of the page, in a real browser beside a daemon as it ships, compared with the REST API."""

import json
from pathlib import Path
from typing import Any

from chromium import Page
from daemon import application, asks, next_allocated, node
from msgspec import structs
from pages import CELLS, ROWS, shown, some_work

from ykactor.client import operate
from ykactor.wire.si import messages as si


def flat(queue: dict[str, Any]) -> list[dict[str, Any]]:
    """A queue of the REST API and those below it, parents first."""
    below = [found for child in queue.get("children") or () for found in flat(child)]
    return [queue, *below]


async def test_queues_are_those_of_the_rest_api(page: Page, file: Path) -> None:
    """Each queue with what it uses of what, what is pending, and its priority: at first, after events, and while it is held."""
    async with shown(page, file) as world:
        await world.shows(
            "queues",
            [
                ["▾root", "0 of 8", "", "-", "0", ""],
                ["prod", "0, guaranteed 4", "", "-", "0", ""],
                ["▾test", "0 of 6", "", "-", "0", ""],
                ["a", "0", "", "-", "0", ""],
                ["b", "0 of 2", "", "-", "0", ""],
            ],
        )
        await some_work(world.rm)
        await page.until(f"{CELLS.format('queues')}.at(-1)?.at(-1) === '1'")
        cells = await world.cells("queues")
        answered = flat(await world.read("partition/default/queues"))
        for row, queue in zip(cells, answered, strict=True):
            assert row[0].removeprefix("▾") == queue["queuename"].rpartition(".")[2]
            used, limit = (queue.get(field, {}).get("vcore", 0) for field in ("allocatedResource", "maxResource"))
            assert row[1].partition(",")[0] == (f"{used // 1000} of {limit // 1000}" if limit else f"{used // 1000}")
            assert row[2] == str(queue.get("pendingResource", {}).get("vcore", 0) // 1000 or "")
            assert row[3] == ("-" if queue["currentPriority"] == -(2**31) else str(queue["currentPriority"]))
            assert row[4].partition(" ")[0] == str(queue.get("runningApps", 0))
        assert cells[-1] == ["b", "2 of 2", "1", "0", "1", "1"]
        async with operate(world.daemon.url) as operator:
            await operator.request(si.HoldQueue(queue_name="root.test"))
        await page.until(f"{CELLS.format('queues')}.at(-1)?.[0].endsWith('held')")
        assert [row[0].endswith("held") for row in await world.cells("queues")] == [False, False, True, True, True]


async def test_events_change_what_is_shown(page: Page, file: Path) -> None:
    """Amounts are those of events; a page that nobody sees asks for no snapshot."""
    async with shown(page, file) as world:
        await page.run("Object.defineProperty(document, 'visibilityState', {value: 'hidden', configurable: true})")
        await some_work(world.rm)
        await page.until(f"{CELLS.format('queues')}.at(-1)?.[1] === '2 of 2'")
        assert (await world.cells("queues"))[-1] == ["b", "2 of 2", "1", "-", "0", ""]
        await page.run("delete document.visibilityState")
        await world.rm.request(asks("t4"))
        await page.until(f"{CELLS.format('queues')}.at(-1)?.[5] === '2'")
        assert (await world.cells("queues"))[-1] == ["b", "2 of 2", "2", "0", "1", "2"]


async def test_why_asks_wait(page: Page, file: Path) -> None:
    """Each group of asks with its priority at root, and its reason in present numbers."""
    async with shown(page, file, "asks") as world:
        await some_work(world.rm)
        await page.until(f"{CELLS.format('asks')}.length === 1")
        ((count, name, queue, wants, priority, _, why),) = await world.cells("asks")
        assert (count, name, queue, wants, priority) == ("1", "app-1", "root.test.b", "vcore 1", "3")
        assert why == "wants 1, has 0 of 2 vcore in queue root.test.b"


async def test_names_are_text(page: Page, file: Path) -> None:
    """SE-97: whatever an application or a node is called, it is never markup, and never a method."""
    evil = "<img src=x onerror=document.title='evil'>"
    async with shown(page, file, "applications") as world:
        for name in (evil, "__proto__", "constructor"):
            await world.rm.request(application(name, "root.test.a"))
            await world.rm.request(asks("constructor", of=name))
        await world.rm.request(node(evil, vcore=1000))
        await page.until(f"{CELLS.format('applications')}.length === 3")
        assert {row[0] for row in await world.cells("applications")} == {evil, "__proto__", "constructor"}
        for panel in ("queues", "asks", "nodes", "preemptions", "waits", "events"):
            await page.click(f"document.getElementById('tab-{panel}')")
        await page.until(f"{CELLS.format('events')}.some(row => row[3].startsWith('<img'))")
        assert await page.run("document.images.length + document.querySelectorAll('[onerror]').length") == 0
        assert await page.run("document.title") == "ykactor"


async def test_applications_are_found(page: Page, file: Path) -> None:
    """Search by a part of the name, the queue, the user or the state; the selection is described, also that its queue is held."""
    async with shown(page, file, "applications") as world:
        await some_work(world.rm)
        await world.rm.request(application("other", "root.test.a"))
        await page.until(f"{CELLS.format('applications')}.length === 2")
        await page.run("document.querySelector('#applications input').focus()")
        await page.type("TEST.B")
        await page.until(f"{CELLS.format('applications')}.length === 1")
        await page.until(f"{CELLS.format('applications')}[0][3] === 'alice'")
        ((name, state, queue, user, tasks, waiting, uses, _),) = await world.cells("applications")
        (answered,) = await world.read("partition/default/queue/root.test.b/applications")
        fields = ("applicationID", "applicationState", "queueName", "user")
        assert [name, state, queue, user] == [answered[field] for field in fields]
        assert (int(tasks), int(waiting), uses) == (len(answered["allocations"]), len(answered["requests"]), "vcore 2")
        await page.click(ROWS.format("applications") + "[0]")
        told = await page.run("document.getElementById('details').innerText")
        assert "application app-1" in told
        assert "1 x vcore 1 wait (t3): wants 1, has 0 of 2 vcore in queue root.test.b" in told
        assert "t1 runs on n" in told
        async with operate(world.daemon.url) as operator:
            await operator.request(si.HoldQueue(queue_name="root.test"))
        await page.until("document.getElementById('details').innerText.includes('Held with queue')")
        assert [row[1] for row in await world.cells("applications")] == ["Running, held"]


async def test_an_application_says_how_its_tasks_have_ended(page: Page, file: Path) -> None:
    """AP-152: as far as its resource manager has said it, the newest first."""
    record = si.TaskRecord(application_id="app-1", allocation_key="t1", state="Failed", exit_code=3)
    killed = {"allocation_key": "t0", "exit_code": 137, "signal": "SIGKILL", "peak_memory": 2**20}
    async with shown(page, file, "applications") as world:
        await some_work(world.rm)
        known = structs.replace(record, **killed, start_time=10**9, finished_time=3 * 10**9)
        await world.rm.request(si.ApplicationRequest(records=[known, record]))
        await page.until(f"{CELLS.format('applications')}.length === 1")
        await page.click(ROWS.format("applications") + "[0]")
        await page.until("document.getElementById('details').innerText.includes('t1 is Failed, exit code 3, on n')")
        told = await page.run("document.getElementById('details').innerText")
        _, after = told[told.index("t1 is Failed") :].split("t0 is Failed, SIGKILL, began ")
        assert after.partition(" ago, ")[2].startswith("ran 2s, used up to memory 1Mi")


async def test_nodes_are_a_map(page: Page, file: Path) -> None:
    """A cell for each node; a click on one shows it as the REST API has it."""
    async with shown(page, file, "nodes") as world:
        await some_work(world.rm)
        await page.until("document.getElementById('nodes-summary').innerText === '2 nodes, on average 25 % used, 0 draining'")
        await page.click("document.querySelector('#heat canvas')", x=0.06, y=0.5)
        await page.until("document.getElementById('nodes-name').innerText === 'n2: 25 % used'")
        told = await page.until("document.getElementById('details').innerText")
        answered = await world.read("partition/default/node/n2")
        used = answered["allocated"].get("vcore", 0) // 1000
        assert "node n2" in told
        assert f"{used * 25} %: {f'vcore {used}' if used else '0'}" in told
        assert all(task["allocationKey"] in told for task in answered["allocations"] or ())
        await page.run("document.getElementById('heat').focus()")
        await world.rm.request(node("n0"))
        await page.until("document.getElementById('nodes-summary').innerText.startsWith('3 nodes')")
        await page.press("ArrowLeft", "Enter")
        assert "node n1" in await page.run("document.getElementById('details').innerText")


async def test_preemptions_say_why(page: Page, file: Path) -> None:
    """Each with the ask, what allows it, and its victims."""
    async with shown(page, file, "preemptions") as world:
        await world.rm.request(application("app-1", "root.test.a"))
        await world.rm.request(asks(*(f"t{number}" for number in range(6))))
        await next_allocated(world.rm, 6)
        await world.rm.request(application("app-2", "root.prod"))
        may_preempt = si.PreemptionPolicy(allow_preempt_other=True)
        wanted = structs.replace(asks("p1", of="app-2", vcore=4000).allocations[0], preemption_policy=may_preempt)
        await world.rm.request(si.AllocationRequest(allocations=[wanted]))
        await page.until(f"{CELLS.format('preemptions')}.length === 1")
        ((_, ask, queue, chosen, victims, why),) = await world.cells("preemptions")
        assert (ask, queue, chosen in ("n1", "n2")) == ("p1", "root.prod", True)
        assert why == "its queue is 4 vcore below its guarantee (law 4)"
        await page.click(ROWS.format("preemptions") + "[0]")
        told = await page.run("document.getElementById('details').innerText")
        assert told.count("preempts t") == int(victims)


GUARDED = """
partitions:
  - name: default
    preemption: {quotapreemptionenabled: true}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            properties: {quota.preemption.delay: 100ms}
            resources: {guaranteed: {vcore: 4}, max: {vcore: 8}}
            queues: [{name: b, resources: {max: {vcore: 8}}}]
"""


async def test_a_queue_above_its_max_says_why(page: Page, file: Path) -> None:
    """PE-98: among the preemptions when it should have given back, and beside the queue as long as it lasts."""
    reason = "2 vcore above its maximum; nothing is taken because vcore of root.a is at its guarantee"
    async with shown(page, file, "preemptions", GUARDED) as world:
        await world.rm.request(application("app-1", "root.a.b"))
        await world.rm.request(asks(*(f"t{number}" for number in range(4))))
        await next_allocated(world.rm, 4)
        lowered = GUARDED.replace("b, resources: {max: {vcore: 8}}", "b, resources: {max: {vcore: 2}}")
        await world.rm.request(si.UpdateConfigurationRequest(config=lowered))
        await page.until(f"{CELLS.format('preemptions')}.length === 1")
        ((_, what, queue, _, _, why),) = await world.cells("preemptions")
        assert (what, queue, why) == ("root.a.b", "root.a.b", reason)
        await page.click("document.getElementById('tab-queues')")
        await page.until(f"{CELLS.format('queues')}.length === 3")
        await page.click(ROWS.format("queues") + "[2]")
        await page.until(f"document.getElementById('details').innerText.includes({json.dumps(reason)})")


async def test_wait_times(page: Page, file: Path) -> None:
    """The waiting times of placed asks are shown in words and in two charts."""
    async with shown(page, file, "waits") as world:
        await some_work(world.rm)
        await page.until("document.getElementById('waits-summary').innerText.startsWith('Of the last 2 placed asks')")
        await page.until("document.querySelectorAll('#waits canvas').length === 2")
