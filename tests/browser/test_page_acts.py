"""Acts of an operator on the page, which others are not offered."""

from pathlib import Path

import pytest
import trio
from chromium import Page
from daemon import new_token, node, real_daemon
from pages import CELLS, ROWS, World, shown, some_work

from ykactor.client import connect

BUTTONS = "[...document.querySelectorAll('#details .actions button')].map(button => button.innerText).join()"
DIALOG = "document.getElementById('question')"


async def choose(page: Page, label: str) -> None:
    """Click the button of an act, and wait for its question."""
    await page.click(f"[...document.querySelectorAll('#details button')].find(button => button.innerText === '{label}')")
    await page.until(f"{DIALOG}.open")


async def answer(page: Page, value: str) -> None:
    """Answer the question: ``confirm`` or ``cancel``."""
    await page.click(f"{DIALOG}.querySelector('[value={value}]')")
    await page.until(f"!{DIALOG}.open")


#: Of the node that is chosen or pointed at.
NAME = "document.getElementById('nodes-name').innerText"


async def is_schedulable(world: World, node_id: str) -> bool:
    schedulable: bool = (await world.read(f"partition/default/node/{node_id}"))["schedulable"]
    return schedulable


async def test_a_node_is_drained_after_a_confirmation(page: Page, file: Path) -> None:
    """SE-71: No changes nothing, Yes drains; then the button ends the draining."""
    async with shown(page, file, "nodes") as world:
        await page.until("document.getElementById('nodes-summary').innerText.startsWith('2 nodes')")
        await page.run("document.getElementById('heat').focus()")
        await page.until(f"{NAME} === 'n1: 0 % used'")
        assert await page.run("document.getElementById('heat').ariaLabel.startsWith('Node n1: 0 % used.')")
        await page.press("ArrowRight")
        await page.until(f"{NAME} === 'n2: 0 % used'")
        await page.press("ArrowLeft", "Enter")
        await page.until(f"{BUTTONS} === 'Drain'")
        await choose(page, "Drain")
        assert await page.run("document.activeElement.innerText") == "No"
        assert await page.run(f"document.getElementById({DIALOG}.getAttribute('aria-labelledby')).innerText") == "Drain n1?"
        await answer(page, "cancel")
        assert await is_schedulable(world, "n1")
        await choose(page, "Drain")
        await answer(page, "confirm")
        await page.until(f"{BUTTONS} === 'Undrain'")
        assert not await is_schedulable(world, "n1")
        assert await page.run("document.getElementById('announcement').innerText") == "n1 drains"
        await choose(page, "Undrain")
        await answer(page, "confirm")
        await page.until(f"{BUTTONS} === 'Drain'")
        assert await is_schedulable(world, "n1")


RECORDS = """
const sends = WebSocket.prototype.send;
window.sent = [];
WebSocket.prototype.send = function (text) { window.sent.push(JSON.parse(text)); sends.call(this, text); };
"""
SNAPSHOTS = "window.sent.filter(message => message.type === 'Subscribe' && message.from === 'snapshot')"


async def test_the_next_snapshot_has_what_an_act_has_changed(page: Page, file: Path) -> None:
    """DU-24: the page asks for a snapshot that has the turn of the act, wherever it reads that."""
    async with shown(page, file, "nodes"):
        await page.until("document.getElementById('nodes-summary').innerText.startsWith('2 nodes')")
        await page.run(f"(() => {{{RECORDS}}})()")
        await page.run("document.getElementById('heat').focus()")
        await page.press("ArrowRight", "Enter")
        await page.until(f"{BUTTONS} === 'Drain'")
        await choose(page, "Drain")
        await answer(page, "confirm")
        await page.until(f"{BUTTONS} === 'Undrain'")
        await page.until(f"{SNAPSHOTS}.some(message => message.turns.default > 0 && message.term.startsWith('1-'))")


async def test_an_application_is_moved_and_cancelled(page: Page, file: Path) -> None:
    """A queue that is not there is refused with the reason of the daemon; a task and the application are cancelled."""
    async with shown(page, file, "applications") as world:
        await some_work(world.rm)
        await page.click(ROWS.format("applications") + "[0]")
        await page.until(f"{BUTTONS} === 'Move…,Cancel an ask…,Cancel'")
        for queue in ("root.none", "root.test.a"):
            await choose(page, "Move…")
            await page.type(queue)
            await page.press("Enter")
            await page.until(f"!{DIALOG}.open")
            if queue == "root.none":
                await page.until("document.getElementById('notice').innerText.includes('root.none')")
        await page.until(f"{CELLS.format('applications')}[0][2] === 'root.test.a'")
        assert await page.run("document.getElementById('notice').hidden")
        await page.until("document.body.innerText.includes('t3 runs on')")  # which is offered first while it is pending
        await choose(page, "Cancel an ask…")
        await answer(page, "confirm")
        await page.until("document.getElementById('announcement').innerText.endsWith('t1 is being released')")
        await choose(page, "Cancel")
        await answer(page, "confirm")
        await page.until(f"{CELLS.format('applications')}[0]?.[1] === 'Failing'")


@pytest.mark.parametrize(("role", "buttons"), [("reader", ""), ("reader, operator", "Drain")])
async def test_only_operators_are_offered_acts(page: Page, tmp_path: Path, role: str, buttons: str) -> None:
    """SE-97: a reader that is no operator sees no button."""
    access = tmp_path / "access.yaml"
    rm = "{name: rm, roles: [rm], rmIDs: [rm]}"
    await trio.Path(access).write_text(f"identities: [{{name: viewer, roles: [{role}]}}, {rm}]")
    tokens = [new_token(name, access) for name in ("viewer", "rm")]
    async with real_daemon("--access", access, http="127.0.0.1:0") as daemon:
        async with connect(daemon.url, rm_id="rm", token=tokens[1]) as manager:
            await manager.request(node("n1"))
        await page.open(f"{daemon.http}/#nodes")
        await page.until("document.activeElement?.id === 'token'")
        await page.type(tokens[0])
        await page.press("Enter")
        await page.until("document.getElementById('nodes-summary').innerText.startsWith('1 nodes')")
        await page.click("document.querySelector('#heat canvas')", x=0.01)
        await page.until("document.getElementById('details').innerText.includes('node n1')")
        assert await page.run(BUTTONS) == buttons
        await page.open("about:blank")
    assert all("401" in error for error in page.errors)
    page.errors.clear()
