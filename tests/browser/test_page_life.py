"""The page while connections and daemons come and go."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from daemon import RunningDaemon, application, asks, new_token, next_allocated, node, real_daemon, run_command
from pages import BUTTONS, CELLS, CONFIG, LINK, ROWS, shown, some_work

from bench.chromium import Page
from ykactor.client import connect

LIVE = "document.getElementById('status').dataset.state == 'live'"
NUMBERS = f"{CELLS.format('events')}.map(row => Number(row[0].replaceAll(',', '')))"


async def free_addresses() -> list[str]:
    """Two addresses that are free now, for a daemon that is started again at the same place."""
    listeners = [(await trio.open_tcp_listeners(0, host="127.0.0.1"))[0] for _ in range(2)]
    ports = [listener.socket.getsockname()[1] for listener in listeners]
    for listener in listeners:
        await listener.aclose()
    return [f"127.0.0.1:{port}" for port in ports]


@asynccontextmanager
async def again(page: Page, *options: str | Path) -> AsyncIterator[tuple[RunningDaemon, list[int]]]:
    """A daemon that was killed and started again while its page was open, and the numbers that the page had before."""
    addresses = await free_addresses()
    ws, http = ("--ws", addresses[0]), addresses[1]
    async with real_daemon(*options, ws=ws, http=http) as daemon:
        async with connect(daemon.url, rm_id="rm") as rm:
            await rm.request(node("n1"))
        await page.open(f"{daemon.http}/#events")
        await page.until(f"{NUMBERS}.length > 2")
        before = await page.run(NUMBERS)
        daemon.process.kill()
        await page.until("document.getElementById('status').dataset.state == 'lost'")
        assert "next attempt in" in await page.run("document.getElementById('status').innerText")
    async with real_daemon(*options, ws=ws, http=http) as daemon:
        await page.until(LIVE)
        yield daemon, before
        await page.open("about:blank")  # nothing is asked for while the daemon ends
    assert all("ERR_CONNECTION_REFUSED" in error for error in page.errors)
    page.errors.clear()


async def test_goes_on_by_number_after_a_restart(page: Page, tmp_path: Path) -> None:
    """EV-55: with a state directory no event is missing, and none is there twice."""
    async with again(page, "--state-dir", tmp_path) as (daemon, before):
        async with connect(daemon.url, rm_id="rm", resume_from="now") as rm:
            await rm.request(node("n2"))
            await page.until(f"{CELLS.format('events')}.some(row => row[3] === 'n2')")
        numbers = await page.run(NUMBERS)
        assert numbers == list(range(numbers[0], 0, -1))
        assert set(before) < set(numbers)
        assert await page.run("document.getElementById('notice').hidden")


async def test_says_that_numbers_began_anew(page: Page) -> None:
    """A daemon without a state directory has forgotten all: the page says so, and shows the present state."""
    async with again(page) as (daemon, _):
        await page.until("document.getElementById('notice').innerText.includes('restarted')")
        async with connect(daemon.url, rm_id="rm") as rm:
            await rm.request(node("n2"))
            await page.click(LINK.format("nodes"))
            await page.until("document.getElementById('nodes-summary').innerText.startsWith('1 nodes,')")


async def sign_in(page: Page, token: str) -> None:
    """Type a token where the page asks for it."""
    await page.until("document.activeElement?.id === 'token'")
    await page.type(token)
    await page.press("Enter")


async def test_a_token_is_asked_for(page: Page, tmp_path: Path) -> None:
    """SE-98, SE-68: nothing is shown before; a wrong one is refused; after the right one a cookie is enough that no script reads,
    until the token is revoked or the page logs out. Operators are offered acts.
    """
    access = tmp_path / "access.yaml"
    await trio.Path(access).write_text("identities: [{name: viewer, roles: [reader, operator]}]")
    secret = new_token("viewer", access)
    async with real_daemon("--access", access, http="127.0.0.1:0") as daemon:
        await page.open(daemon.http)
        await sign_in(page, "„wrong“")
        await page.until("document.getElementById('login-message').innerText.includes('characters that no token has')")
        await sign_in(page, "wrong")
        await page.until("/not accepted: (?!.*characters)/.test(document.getElementById('login-message').innerText)")
        await sign_in(page, secret)
        await page.until(LIVE)
        kept = "[document.cookie, localStorage.length, sessionStorage.length, location.search + location.hash]"
        assert await page.run(kept) == ["", 0, 0, ""]
        await page.run("location.hash = '#queues?show=queue:root'")
        await page.until(f"{BUTTONS} === 'Hold'")
        await page.open(f"{daemon.http}/ui/")
        await page.until(f"document.getElementById('status') && {LIVE}")
        await page.click("document.getElementById('logout')")
        await page.until("document.activeElement?.id === 'token' && document.getElementById('logout').hidden")
        await sign_in(page, secret)
        await page.until(LIVE)
        token_id = (await run_command("token", "list", "--access", access, "-o", "name"))[0].strip()
        await run_command("token", "revoke", token_id, "--access", access)
        await page.until("!document.getElementById('login').hidden")
        await page.open("about:blank")
    assert all("401" in error for error in page.errors)
    page.errors.clear()


async def test_a_limited_reader_sees_its_queues(page: Page, file: Path, tmp_path: Path) -> None:
    """SE-84: the page shows what the snapshot of such a reader has: no other queue, no node, and why its asks wait.

    SE-97: a reader that is no operator is offered no act.
    """
    await trio.Path(file).write_text(CONFIG)
    access = tmp_path / "access.yaml"
    rm = "{name: rm, roles: [rm], rmIDs: [rm], users: [alice], groups: ['*']}"
    await trio.Path(access).write_text(f"identities: [{{name: viewer, roles: [reader], queues: [root.test]}}, {rm}]")
    tokens = [new_token(name, access) for name in ("viewer", "rm")]
    async with real_daemon("--config", file, "--access", access, http="127.0.0.1:0") as daemon:
        async with connect(daemon.url, rm_id="rm", token=tokens[1]) as manager:
            await manager.request(node("n1"))
            await some_work(manager)
            await manager.request(application("app-2", "root.test.a"))
            await manager.request(asks("u1", of="app-2"))
            await next_allocated(manager)
        await page.open(daemon.http)
        await sign_in(page, tokens[0])
        await page.until("document.getElementById('curves-notice').innerText.endsWith('which is not shown to you.')")
        assert "Nodes" not in await page.run("document.getElementById('totals').innerText")
        await page.click(LINK.format("queues"))
        await page.until(f"{CELLS.format('queues')}.length === 3")
        # without a maximum and a capacity that is shown nobody knows how much of what is used
        bars = "[...document.querySelectorAll('#queues .fill')].map(fill => fill.style.transform).join()"
        await page.until(f"{bars} === 'scaleX(0.5),scaleX(0),scaleX(1)'")
        assert [row[0] for row in await page.run(CELLS.format("queues"))] == ["▾root.test", "a", "b"]
        await page.click(ROWS.format("queues") + "[2]")
        await page.until("document.getElementById('details').innerText.startsWith('queue root.test.b')")
        assert await page.run(BUTTONS) == ""
        await page.click(LINK.format("waiting"))
        await page.until(f"{CELLS.format('waiting')}[0]?.[0] === '▸Maximum of a queue root.test.b · vcore 2 of 2'")
        await page.click(LINK.format("nodes"))
        await page.until("document.getElementById('nodes-summary').innerText.startsWith('Nodes are not shown to you')")
        await page.click(LINK.format("preemptions"))
        await page.until("document.querySelector('#preemptions .empty').innerText.endsWith('preempted for what you may see.')")
        await page.until("document.getElementById('preemptions-count').innerText.startsWith('how many there were is not shown')")
        await page.open("about:blank")
    assert all("401" in error for error in page.errors)
    page.errors.clear()


async def test_one_partition_is_shown_at_a_time(page: Page, file: Path) -> None:
    """Several partitions are listed, to choose from."""
    partitions = "[{name: default, queues: [{name: root}]}, {name: other, queues: [{name: root, queues: [{name: x}]}]}]"
    async with shown(page, file, config=f"partitions: {partitions}"):
        await page.until(f"{CELLS.format('queues')}.length === 1")
        await page.run("document.getElementById('partition').value = 'other'")
        await page.run("document.getElementById('partition').dispatchEvent(new Event('change'))")
        await page.until(f"{CELLS.format('queues')}.length === 2")


async def test_events_are_filtered_and_paused(page: Page, file: Path) -> None:
    """Filters are kinds and words; a pause holds the list and counts new events."""
    async with shown(page, file, "events") as world:
        await page.until(f"{CELLS.format('events')}.length > 1")
        await page.run("location.hash = '#events?kind=NODE'")
        await page.until("document.getElementById('events-kind').value === 'NODE'")
        await page.until(f"{CELLS.format('events')}.map(row => row[3]).join() === 'n2,n2,n1,n1'")
        await page.click("document.getElementById('events-pause')")
        await world.rm.request(node("n3"))
        await page.until("document.getElementById('events-count').innerText === 'paused, 3 new'")
        assert [row[3] for row in await world.cells("events")] == ["n2", "n2", "n1", "n1"]
        await page.click("document.getElementById('events-pause')")
        await page.until(f"{CELLS.format('events')}.map(row => row[3]).join() === 'n3,n3,n2,n2,n1,n1'")
        await page.run("document.querySelector('#events input').focus()")
        await page.type("n3")
        await page.until(f"{CELLS.format('events')}.length === 2")
