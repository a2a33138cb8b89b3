"""The contents of the page, in a real browser beside a daemon as it ships, compared with the REST API."""

import json
import re
from pathlib import Path
from typing import Any

from daemon import application, asks, next_allocated, node
from msgspec import structs
from pages import ANY, CELLS, LINK, ROWS, World, shown, some_work

from bench.chromium import Page
from ykactor.client import operate
from ykactor.wire.si import messages as si


def flat(queue: dict[str, Any]) -> list[dict[str, Any]]:
    """A queue of the REST API and those below it, parents first."""
    below = [found for child in queue.get("children") or () for found in flat(child)]
    return [queue, *below]


async def test_queues_are_those_of_the_rest_api(page: Page, file: Path) -> None:
    """Each queue with what it uses of what, what is pending, and its priority: at first, after events, and while it is held.

    Amounts are those of events; a page that nobody sees asks for no snapshot.
    """
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
        await page.run("Object.defineProperty(document, 'visibilityState', {value: 'hidden', configurable: true})")
        await some_work(world.rm)
        await page.until(f"{CELLS.format('queues')}.at(-1)?.[1] === '2 of 2'")
        assert (await world.cells("queues"))[-1] == ["b", "2 of 2", "1", "-", "0", ""]
        await page.run("delete document.visibilityState")
        await world.rm.request(asks("t4"))
        await page.until(f"{CELLS.format('queues')}.at(-1)?.at(-1) === '2'")
        cells = await world.cells("queues")
        answered = flat(await world.read("partition/default/queues"))
        for row, queue in zip(cells, answered, strict=True):
            assert row[0].removeprefix("▾") == queue["queuename"].rpartition(".")[2]
            used, limit = (queue.get(field, {}).get("vcore", 0) for field in ("allocatedResource", "maxResource"))
            assert row[1].partition(",")[0] == (f"{used // 1000} of {limit // 1000}" if limit else f"{used // 1000}")
            assert row[2] == str(queue.get("pendingResource", {}).get("vcore", 0) // 1000 or "")
            assert row[3] == ("-" if queue["currentPriority"] == -(2**31) else str(queue["currentPriority"]))
            assert row[4].partition(" ")[0] == str(queue.get("runningApps", 0))
        assert cells[-1] == ["b", "2 of 2", "2", "0", "1", "2"]
        async with operate(world.daemon.url) as operator:
            await operator.request(si.HoldQueue(queue_name="root.test"))
        await page.until(f"{CELLS.format('queues')}.at(-1)?.[0].endsWith('held')")
        assert [row[0].endswith("held") for row in await world.cells("queues")] == [False, False, True, True, True]


async def test_names_are_text(page: Page, file: Path) -> None:
    """SE-97: whatever an application or a node is called, it is never markup, and never a method."""
    evil = "<img src=x onerror=document.title='evil'>"
    async with shown(page, file, "applications") as world:
        for name in (evil, "__proto__", "constructor"):
            await world.rm.request(application(name, "root.test.a"))
            await world.rm.request(asks("constructor", of=name))
            await world.rm.request(si.ApplicationRequest(jobs=[si.JobReport(application_id=name, name=name, tasks=1)]))
        await world.rm.request(node(evil, vcore=1000))
        await page.until(f"{CELLS.format('applications')}.length === 3")
        assert {row[0] for row in await world.cells("applications")} == {evil, "__proto__", "constructor"}
        for view in ("overview", "queues", "waiting", "jobs", "nodes", "users", "preemptions", "configuration", "events"):
            await page.click(LINK.format(view))
        await page.until(f"{CELLS.format('events')}.some(row => row[3].startsWith('<img'))")
        assert await page.run("document.images.length + document.querySelectorAll('[onerror]').length") == 0
        assert await page.run("document.title") == "Events - ykactor"


FAILED = si.TaskRecord(application_id="app-1", allocation_key="t1", state="Failed", exit_code=3)
KILLED = si.TaskRecord(
    application_id="app-1",
    allocation_key="t0",
    state="Failed",
    exit_code=137,
    signal="SIGKILL",
    peak_memory=2**20,
    start_time=10**9,
    finished_time=3 * 10**9,
)


async def test_applications_are_found(page: Page, file: Path) -> None:
    """Search by a part of the name, the queue, the user or the state; the selection is described, also that its queue is held.

    AP-152: and how its tasks have ended, as far as its resource manager has said it, the newest first.
    """
    async with shown(page, file, "applications") as world:
        await some_work(world.rm)
        await world.rm.request(si.ApplicationRequest(records=[KILLED, FAILED]))
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
        running, wait = len(answered["allocations"]), len(answered["requests"])
        assert (tasks, waiting, uses) == (f"{running} of {running + wait}", str(wait), "2")
        assert await page.run("location.hash") == "#applications?find=TEST.B"
        await page.click(ROWS.format("applications") + "[0]")
        told = await page.run("document.getElementById('details').innerText")
        assert "application app-1" in told
        assert "1 x vcore 1 wait (t3): wants 1, has 0 of 2 vcore in queue root.test.b" in told
        assert "t1 runs on n" in told
        await page.until("document.getElementById('details').innerText.includes('t1 is Failed, exit code 3, on n')")
        told = await page.run("document.getElementById('details').innerText")
        _, after = told[told.index("t1 is Failed") :].split("t0 is Failed, SIGKILL, began ")
        assert after.partition(" ago, ")[2].startswith("ran 2s, used up to memory 1Mi")
        async with operate(world.daemon.url) as operator:
            await operator.request(si.HoldQueue(queue_name="root.test"))
        await page.until("document.getElementById('details').innerText.includes('Held with queue')")
        assert [row[1] for row in await world.cells("applications")] == ["Running, held"]


ATTEMPTS = "[...document.querySelectorAll('#details tbody td')].map(cell => cell.innerText)"


async def test_jobs_show_how_far_they_are(page: Page, file: Path) -> None:
    """AP-160: nothing before somebody tells of one; then progress, why its tasks wait, and its attempts, also on a phone."""
    async with shown(page, file, "jobs") as world:
        await page.until("document.querySelector('#jobs .empty').innerText.startsWith('No resource manager has told of a job')")
        await some_work(world.rm)
        await world.rm.request(application("other", "root.test.a"))
        job = si.JobReport(application_id="app-1", name="train", tasks=9, completed=2, failed=1)
        ended = structs.replace(KILLED, cpu_time=1_500_000_000, eligible_time=10**9 - 7_000_000, message="it is short of memory")
        await world.rm.request(si.ApplicationRequest(jobs=[job], records=[ended]))
        why = "Maximum of a queue: root.test.b · vcore 2 of 2"
        await world.shows("jobs", [["app-1 train", "Running", "root.test.b", "alice", "2 of 9, 1 failed", why, ANY]])
        await page.click(ROWS.format("jobs") + "[0]")
        assert await page.run("location.hash") == "#jobs?show=job%3Aapp-1"
        told = await page.until(f"({ATTEMPTS}).length && ({ATTEMPTS})")
        below = "it is short of memory, in root.test.b, waited 7ms"
        assert told[-7:] == ["t0", "Failed", "2s", "1.5s", "1Mi", "SIGKILL", below]
        assert {(told[at], told[at + 1]) for at in (0, 7)} == {("t1", "Running"), ("t2", "Running")}
        assert "2 of 9 done, 2 running, 1 failed" in await page.run("document.getElementById('details').innerText")
        await page.press("Escape")
        await page.resize(390, 800)
        wide = "getBoundingClientRect().width > 90"
        assert await page.run(f"document.querySelector('#jobs .rows .reason').{wide}")
        await page.run("document.querySelector('#jobs input').focus()")
        await page.type("no such job")
        await page.until(
            "document.querySelector('#jobs .empty').innerText === 'No job has this in its name, queue, user or state.'"
        )


NODE = "document.getElementById('heat').ariaLabel.split('.')[0]"
SUMMARY = "document.getElementById('nodes-summary').innerText"


async def test_nodes_are_a_map(page: Page, file: Path) -> None:
    """A cell for each node, which a click shows as the REST API has it, also when there are others."""
    async with shown(page, file, "nodes") as world:
        await some_work(world.rm)
        await page.until(f"{SUMMARY} === '2 nodes, 25 % in use on average, 0 drained'")
        await page.click("document.querySelector('#heat canvas')", x=0.19)
        await page.until(f"{NODE} === 'Node n2: 25 % in use'")
        assert await page.run("location.hash") == "#nodes?show=node%3An2"
        told = await page.until("document.getElementById('details').innerText")
        answered = await world.read("partition/default/node/n2")
        used = answered["allocated"].get("vcore", 0) // 1000
        assert "node n2" in told
        assert f"{used * 25} %: {f'vcore {used}' if used else '0'}" in told
        assert all(task["allocationKey"] in told for task in answered["allocations"] or ())
        await page.run("document.getElementById('heat').focus()")
        await world.rm.request(node("n0"))
        await page.until(f"{SUMMARY}.startsWith('3 nodes')")
        await page.press("ArrowLeft", "Enter")
        await page.until("document.getElementById('details').innerText.startsWith('node n1')")


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
        ((_, story, why, _),) = await world.cells("preemptions")
        found = re.fullmatch(r"p1 of root.prod preempts (\d) tasks of app-1 on (n1|n2)", story)
        assert found
        assert why == "its queue is 4 vcore below its guarantee (law 4)"
        await page.click(ROWS.format("preemptions") + "[0]")
        told = await page.run("document.getElementById('details').innerText")
        assert told.count("preempts t") == int(found[1])


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
        ((_, what, why, _),) = await world.cells("preemptions")
        assert (what, why) == ("Queue root.a.b", reason)
        await page.click(LINK.format("queues"))
        await page.until(f"{CELLS.format('queues')}.length === 3")
        await page.click(ROWS.format("queues") + "[2]")
        await page.until(f"document.getElementById('details').innerText.includes({json.dumps(reason)})")


async def test_the_overview(page: Page, file: Path) -> None:
    """Totals, curves, the commonest reason with a link to its asks, and what is unhealthy."""
    async with shown(page, file) as world:
        await some_work(world.rm)
        await page.until(f"{CELLS.format('queues')}.at(-1)?.at(-1) === '1'")
        await page.click(LINK.format("overview"))
        totals = "[...document.querySelectorAll('#totals b')].map(number => number.innerText).join()"
        await page.until(f"{totals} === '25 %,1,1,2'")
        await page.until("document.querySelectorAll('#curves canvas').length === 3")
        await page.until("/pending:?\\s*1/.test(document.getElementById('curve-pending').innerText)")
        await page.until("document.getElementById('troubles-none').hidden === false")
        async with operate(world.daemon.url) as operator:
            await operator.request(si.HoldQueue(queue_name="root.prod"))
        await page.until("document.getElementById('troubles').innerText.includes('Queue root.prod is held.')")
        await page.click("document.querySelector('#reasons a')")
        await page.until("location.hash === '#waiting?reason=QUOTA'")
        await waiting_is_told(world)


async def waiting_is_told(world: World) -> None:
    """Asks are folded by reason and place; below a reason each application has its own, in present numbers."""
    page, folded = world.page, "▸Maximum of a queue root.test.b · vcore 2 of 2"
    await world.shows("waiting", [[folded, "1", "1", "1", ANY]])
    await world.rm.request(application("app-2", "root.test.b"))
    await world.rm.request(asks("u1", "u2", of="app-2"))
    await world.shows("waiting", [[folded, "3", "2", "3", ANY]])
    await page.click(ROWS.format("waiting") + "[0]")
    why = "wants 1, has 0 of 2 vcore in queue root.test.b"
    (_, first, second) = await world.shows("waiting", [[ANY] * 5, [ANY, "1", "", "1", ANY], [ANY, "2", "", "2", ANY]])
    assert {first[0], second[0]} == {f"app-1 {why}", f"app-2 {why}"}
    await page.run("location.hash = '#waiting?reason=LIMIT'")
    await page.until("document.querySelector('#waiting .empty').innerText === 'No ask that waits is like this.'")


async def test_users_and_the_configuration(page: Page, file: Path) -> None:
    """Users have what they use in each leaf; the configuration has the lines of the queue file."""
    async with shown(page, file, "users") as world:
        await some_work(world.rm)
        await world.shows("users", [["user alice", "root.test.b", "2", "no limit", "1"]])
        await page.click(ROWS.format("users") + "[0]")
        await page.until("document.getElementById('details').innerText.includes('app-1 in root.test.b: Running')")
        await page.run("location.hash = '#configuration?find=priority.offset'")
        await page.until(f"{CELLS.format('configuration')}.length === 2")


async def test_rows_are_sorted_and_grouped(page: Page, file: Path) -> None:
    """A click on a header sorts; the order is in the address, and so after the page is loaded again; nodes are in groups."""
    async with shown(page, file, "applications") as world:
        await some_work(world.rm)
        for number in (10, 9):
            await world.rm.request(application(f"app-{number}", "root.test.a"))
        names = f"{CELLS.format('applications')}.map(row => row[0]).join()"
        await page.until(f"{names} === 'app-1,app-10,app-9'")
        header = "[...document.querySelectorAll('#applications .sort')].find(button => button.innerText.startsWith('{}'))"
        await page.click(header.format("Application"))
        await page.until(f"{names} === 'app-1,app-9,app-10'")
        await page.click(header.format("Application"))
        await page.until(f"{names} === 'app-10,app-9,app-1'")
        assert await page.run("location.hash") == "#applications?sort=-application"
        await page.open("about:blank")
        await page.open(f"{world.daemon.http}/#applications?sort=-application&show=application:app-9")
        await page.until(f"document.getElementById('applications') && {names} === 'app-10,app-9,app-1'")
        await page.until("document.getElementById('details').innerText.startsWith('application app-9')")
        link = ROWS.format("applications") + "[0].querySelector('a').getAttribute('href')"
        assert await page.run(link) == "#applications?sort=-application&show=application%3Aapp-10"
        added = node("n0").nodes[0]
        zones = [structs.replace(added, node_id=f"n1{number}", attributes={"zone": "east"}) for number in (0, 1)]
        await world.rm.request(si.NodeRequest(nodes=[added, *zones]))
        await page.run("location.hash = '#nodes?as=list&by=zone&sort=-node'")
        names = f"{CELLS.format('node-list')}.map(row => row[0]).join()"
        await page.until(f"{names} === '▾zone=east 2 nodes,n11,n10,▾zone=other 3 nodes,n2,n1,n0'")
        await page.run("location.hash = '#nodes?as=list&find=zone%3Deast'")
        await page.until(f"{CELLS.format('node-list')}.map(row => row[0]).join() === 'n10,n11'")
