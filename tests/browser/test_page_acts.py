"""Acts of an operator on the page."""

from pathlib import Path

from daemon import application
from pages import BUTTONS, CELLS, ROWS, World, shown, some_work

from bench.chromium import Page

DIALOG = "document.getElementById('question')"


BUTTON = "[...document.querySelectorAll('#details button')].find(button => button.innerText === '{}')"


async def choose(page: Page, label: str) -> None:
    """Click the button of an act, and wait for its question."""
    await page.click(BUTTON.format(label))
    await page.until(f"{DIALOG}.open")


async def answer(page: Page, value: str) -> None:
    """Answer the question: ``confirm`` or ``cancel``."""
    await page.click(f"{DIALOG}.querySelector('[value={value}]')")
    await page.until(f"!{DIALOG}.open")


#: Of the node that is chosen or pointed at.
NAME = "document.getElementById('heat').ariaLabel.split('.')[0]"
#: What the last act came to.
NOTICE = "document.getElementById('notice').innerText"


async def is_schedulable(world: World, node_id: str) -> bool:
    schedulable: bool = (await world.read(f"partition/default/node/{node_id}"))["schedulable"]
    return schedulable


RECORDS = """
const sends = WebSocket.prototype.send;
window.sent = [];
WebSocket.prototype.send = function (text) { window.sent.push(JSON.parse(text)); sends.call(this, text); };
"""
SNAPSHOTS = "window.sent.filter(message => message.type === 'Subscribe' && message.from === 'snapshot')"


async def test_a_node_is_drained_and_back(page: Page, file: Path) -> None:
    """SE-71: at once, since the notice undoes it.

    DU-24: the page asks for a snapshot that has the turn of the act, wherever it reads that.
    """
    async with shown(page, file, "nodes") as world:
        await page.until("document.getElementById('nodes-summary').innerText.startsWith('2 nodes')")
        await page.run("document.getElementById('heat').focus()")
        await page.until(f"{NAME} === 'Node n1: 0 % in use'")
        await page.press("ArrowRight")
        await page.until(f"{NAME} === 'Node n2: 0 % in use'")
        await page.press("ArrowLeft", "Enter")
        await page.until(f"{BUTTONS} === 'Drain'")
        await page.run(f"(() => {{{RECORDS}}})()")
        await page.click(BUTTON.format("Drain"))
        await page.until(f"{BUTTONS} === 'Undrain'")
        assert not await is_schedulable(world, "n1")
        assert await page.run("document.getElementById('announcement').innerText") == "n1 is drained: what runs there goes on"
        await page.until(f"{SNAPSHOTS}.some(message => message.turns.default > 0 && message.term.startsWith('1-'))")
        await page.click("document.querySelector('#notice button')")
        await page.until(f"{BUTTONS} === 'Drain'")
        assert await is_schedulable(world, "n1")


async def test_an_application_is_held_moved_and_cancelled(page: Page, file: Path) -> None:
    """SE-71: hold, priority and move are undone by the notice; a cancel asks in words, and Keep changes nothing."""
    async with shown(page, file, "applications") as world:
        await some_work(world.rm)
        await page.click(ROWS.format("applications") + "[0]")
        await page.until(f"{BUTTONS} === 'Hold,Move…,Priority…,Cancel a task…,Cancel…'")
        cells = CELLS.format("applications")
        await page.click(BUTTON.format("Hold"))
        await page.until(f"{cells}[0][1] === 'Running, held'")
        await choose(page, "Priority…")
        await page.run("document.querySelector('#question input').value = '7'")
        await answer(page, "confirm")
        await page.until(f"{NOTICE}.startsWith('The pending asks of app-1 have priority 7.')")
        await choose(page, "Move…")
        assert (
            await page.run("[...document.querySelectorAll('#question option')].map(o => o.value).join()")
            == "root.prod,root.test.a"
        )
        await page.run("document.querySelector('#question select').value = 'root.test.a'")
        await answer(page, "confirm")
        await page.until(f"{cells}[0][2] === 'root.test.a'")
        await page.click("document.querySelector('#notice button')")
        await page.until(f"{cells}[0][2] === 'root.test.b'")
        await page.click(BUTTON.format("Release"))
        await page.until(f"{cells}[0][1] === 'Running'")
        await choose(page, "Cancel a task…")
        await page.run("document.querySelector('#question input').value = 't1'")
        await answer(page, "confirm")
        await page.until("document.getElementById('announcement').innerText === 't1 is being released'")
        await choose(page, "Cancel…")
        assert await page.run(f"[...{DIALOG}.querySelectorAll('button')].map(b => b.innerText).join()") == "Cancel app-1,Keep"
        await answer(page, "cancel")
        assert (await world.read("partition/default/application/app-1"))["applicationState"] == "Running"
        await choose(page, "Cancel…")
        await answer(page, "confirm")
        await page.until(f"{cells}[0]?.[1] === 'Failing'")


async def test_a_queue_is_held(page: Page, file: Path) -> None:
    """SE-71: with its address, and released again by the button in the place of the first; a refusal says why."""
    async with shown(page, file, "queues?show=queue:root.test") as world:
        await page.until(f"{BUTTONS} === 'Hold'")
        await page.click(BUTTON.format("Hold"))
        await page.until(f"{BUTTONS} === 'Release'")
        await page.until(f"{CELLS.format('queues')}[2][0] === '▾test held'")
        await page.click(BUTTON.format("Release"))
        await page.until(f"{BUTTONS} === 'Hold'")
        await world.rm.request(application("app-1", "root.test.a"))
        await page.run("location.hash = '#applications?show=application:app-1'")
        await page.until(f"{BUTTONS}.startsWith('Hold,Move')")
        await choose(page, "Move…")
        await page.run("document.querySelector('#question option').value = 'root.none'")
        await answer(page, "confirm")
        await page.until(f"{NOTICE}.startsWith('Refused: ') && {NOTICE}.includes('root.none')")
