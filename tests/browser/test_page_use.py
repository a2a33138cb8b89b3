"""The page by keyboard, in the dark, on a phone, for a screen reader, and with 5,000 queues and nodes."""

import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import trio
from daemon import application, asks
from pages import CELLS, LINK, shown, some_work

from bench.chromium import HAPPEN_S, Page
from ykactor.wire.si import messages as si

VIEWS = ("overview", "queues", "waiting", "jobs", "applications", "nodes", "users", "preemptions", "configuration", "events")
CONTROLS = ("button", "link", "textbox", "searchbox", "combobox", "grid", "treegrid", "application")
MANY = 5000
#: How many frames there are while events come and something is scrolled, in a second.
FRAMES = """new Promise(resolve => {
    const [began, box] = [performance.now(), document.querySelector('%s')];
    let frames = 0;
    const step = () => {
        frames += 1;
        box.scrollTop = (box.scrollTop + 40) %% Math.max(1, box.scrollHeight - box.clientHeight);
        if (performance.now() - began < 1000) requestAnimationFrame(step);
        else resolve(frames);
    };
    requestAnimationFrame(step);
})"""


async def test_all_is_reached_by_keyboard(page: Page, file: Path) -> None:
    """Links and fields by Tab; the tree opens, closes and shows a queue; Escape goes back to where one was."""
    async with shown(page, file) as world:
        await world.cells("queues")
        await page.run("document.querySelector('#views a').focus()")
        await page.press("Tab", "Tab", "Enter")
        await page.until("location.hash === '#waiting'")
        await page.run("document.querySelector('#views a').focus()")
        await page.press("Tab", "Enter")
        await page.until("location.hash === '#queues'")
        await page.run("document.querySelector('#queues input').focus()")
        await page.press("Tab")
        assert await page.run("document.activeElement.getAttribute('role')") == "treegrid"
        await page.press("Home", "ArrowDown", "ArrowDown", "ArrowLeft")
        await page.until(f"{CELLS.format('queues')}.length === 3")
        chosen = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
        assert await page.run(f"[{chosen}.ariaLevel, {chosen}.ariaExpanded, {chosen}.ariaSelected]") == ["2", "false", "true"]
        await page.press("ArrowRight", "ArrowRight", "End", "Enter")
        assert await page.until("document.activeElement.innerText === 'queue root.test.b'")
        await page.press("Escape")
        assert await page.run("document.activeElement.getAttribute('role')") == "treegrid"
        await page.press("Enter")
        await page.until("location.hash.includes('show=')")
        await page.click(LINK.format("waiting"))
        await page.until("document.getElementById('details').hidden")


async def test_every_view(page: Page, file: Path) -> None:
    """Nothing is wider than the window, on a screen and a phone; a screen reader finds a name for each control.

    Colours follow the system, also in the dark.
    """
    async with shown(page, file) as world:
        await some_work(world.rm)
        for width in (1280, 390):
            await page.resize(width, 800)
            for panel in VIEWS:
                await page.click(LINK.format(panel))
                await page.until(f"document.querySelector('#{panel}').offsetParent !== null")
                if panel == "configuration":  # its text, which has an empty line, is read when it is shown
                    await page.until(f"{CELLS.format(panel)}.length > 1")
                assert await page.run("document.documentElement.scrollWidth") <= width
                grid = f"document.querySelector('#{panel} .grid')"
                assert await page.run(f"{grid} === null || {grid}.scrollWidth <= {grid}.clientWidth"), panel
                await all_are_named(page, panel)
            picture = await page.picture()
            assert struct.unpack(">II", picture[16:24]) == (width, 800)
        await page.click(LINK.format("overview"))
        await is_dark_where_the_system_is(page)


async def all_are_named(page: Page, panel: str) -> None:
    """Each control of the accessibility tree has a name."""
    tree = (await page.send("Accessibility.getFullAXTree"))["nodes"]
    for found in (found for found in tree if not found["ignored"] and found["role"]["value"] in CONTROLS):
        assert found["name"]["value"], (panel, found)
    assert {"navigation", "main", "status"} <= {found["role"]["value"] for found in tree if "role" in found}


async def is_dark_where_the_system_is(page: Page) -> None:
    """Colours follow the system; charts are there also then."""
    look = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    await page.until("document.querySelectorAll('#curves canvas').length === 3")
    bright = await page.run(look)
    await page.darken()
    dark = await page.run(look)
    assert [sum(map(int, colour[4:-1].split(","))) > 384 for colour in (*bright, *dark)] == [True, False, False, True]
    await page.until("document.querySelectorAll('#curves canvas').length === 3")


LONG = """(async () => {
    const [{ factsOf }, { Status }] = [await import("/ui/facts.js"), await import("/ui/status.js")];
    const [week, now, date] = [7 * 864e5, performance.now.bind(performance), Date.now];
    const status = new Status();
    status.live(1);
    status.lag({ timestampNano: date() * 1e6 });
    [performance.now, Date.now] = [() => now() + week, () => date() + week + 20_000];
    status.live(2);
    status.lag({ timestampNano: (date() + week) * 1e6 });
    status.update();
    [performance.now, Date.now] = [now, date];
    const keys = Array.from({ length: 300_000 }, (_, number) => `t${number}`);
    const pending = keys.map((key) => ({ count: 300_000, resource: {}, allocationKeys: keys, reason: "" }));
    const application = { queueName: "root", pending };
    const partition = { queues: new Map([["root", {}]]), applications: new Map([["app", application]]) };
    const { lines } = factsOf({ partition }, "queue", "root");
    return [document.getElementById("lag").innerText, lines.length, lines.at(-1), lines[0].length < 200];
})()"""


async def test_long_and_much(page: Page, file: Path) -> None:
    """Clocks that part by 20 s in a week are no lag; of 300,000 groups with as many asks each only the first ones are told."""
    async with shown(page, file):
        lag, lines, last, is_short = await page.run(LONG)
        assert (int(lag.split()[1]) < 1000, lines, last, is_short) == (True, 101, "and 299900 more", True)


async def test_many_queues_and_nodes(page: Page, file: Path) -> None:
    """Only visible rows exist among 5,000 of each, and frames keep coming like with few, while events come."""
    few = await frames(page, file, 10)
    await frames(page, file, MANY, {panel: count / 20 for panel, count in few.items()})


async def frames(page: Page, file: Path, count: int, least: Mapping[str, float] = MappingProxyType({})) -> dict[str, int]:
    """The number of frames in a second in the panels of queues and of nodes, with so many of them.

    Args:
        least: by panel, waited for: other programs may have the processor for some seconds.
    """
    leaves = ", ".join(f"{{name: q{number}}}" for number in range(count))
    config = f"partitions: [{{name: default, queues: [{{name: root, submitacl: '*', queues: [{leaves}]}}]}}]"
    found = {}
    async with shown(page, file, config=config) as world:
        infos = [
            si.NodeInfo(node_id=f"n-{number}", action="CREATE", schedulable_resource={"vcore": 4000}) for number in range(count)
        ]
        await world.rm.request(si.NodeRequest(nodes=infos))
        await page.until(f"document.querySelector('#queues .grid').ariaRowCount === '{count + 2}'")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(churn, world.rm)
            assert len(await world.cells("queues")) < 50
            found["queues"] = await until_frames(page, "#queues .grid", least.get("queues", 0))
            await page.click(LINK.format("nodes"))
            await page.until(f"document.getElementById('nodes-summary').innerText.startsWith('{count + 2:,} nodes')")
            found["nodes"] = await until_frames(page, "#heat", least.get("nodes", 0))
            nursery.cancel_scope.cancel()
    return found


async def until_frames(page: Page, box: str, least: float) -> int:
    """The number of frames in a second, when there are more than ``least``."""
    with trio.fail_after(HAPPEN_S):
        while (found := await page.run(FRAMES % box)) <= least:
            pass
    return int(found)


async def churn(rm: Any) -> None:
    """Applications with a task, 100 in a second."""
    for number in range(10_000):
        await rm.request(application(f"app-{number}", f"root.q{number % 10}"))
        await rm.request(asks(f"t{number}", of=f"app-{number}", vcore=10))
        await trio.sleep(0.01)
