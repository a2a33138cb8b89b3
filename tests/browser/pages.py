"""A daemon as it ships, with a resource manager, and its page in a browser."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import trio
from daemon import RunningDaemon, application, asks, next_allocated, node, real_daemon
from restdaemon import request

from bench.chromium import Page
from ykactor.client import ResourceManager, connect

CONFIG = """
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: prod
            properties: {priority.offset: "7", preemption.delay: 1s}
            resources: {guaranteed: {vcore: 4}}
          - name: test
            properties: {priority.offset: "3"}
            resources: {max: {vcore: 6}}
            queues: [{name: a}, {name: b, resources: {max: {vcore: 2}}}]
"""
#: Goes to a view by its link.
LINK = "document.querySelector('#views [data-view={}]')"
ROWS = "[...document.querySelectorAll('#{} .rows .row:not([hidden])')]"
#: The texts of the cells of all rows of a grid that exist, in their order.
CELLS = ROWS + ".sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map(row => [...row.children].map(cell => cell.innerText.trim()))"
#: The acts that are offered for what is selected.
BUTTONS = "[...document.querySelectorAll('#details .actions button')].map(button => button.innerText).join()"
#: Stands for any text of a cell.
ANY = "*"
_IS_LIKE = """found.length === wanted.length && wanted.every((row, at) => row.length === found[at].length
    && row.every((text, number) => text === "*" || text === found[at][number]))"""


class World(NamedTuple):
    """A daemon with a resource manager, and the page that shows it."""

    daemon: RunningDaemon
    rm: ResourceManager
    page: Page

    async def read(self, path: str) -> Any:
        """Read an answer of the REST API."""
        port = int(self.daemon.http.rpartition(":")[2])
        answer = await trio.to_thread.run_sync(request, port, "GET", f"/ws/v1/{path}", {})
        assert answer.status == 200
        return answer.content

    async def cells(self, panel: str) -> list[list[str]]:
        """The cells of the grid of a panel, when it is live."""
        await self.page.until("document.getElementById('status').dataset.state == 'live'")
        cells: list[list[str]] = await self.page.run(CELLS.format(panel))
        return cells

    async def shows(self, panel: str, rows: list[list[str]]) -> list[list[str]]:
        """Wait until the grid of a panel has these texts, ``ANY`` for any; return them."""
        script = f"(wanted => {{ const found = {CELLS.format(panel)}; return {_IS_LIKE} && found; }})({json.dumps(rows)})"
        found: list[list[str]] = await self.page.until(script)
        return found


@asynccontextmanager
async def shown(page: Page, file: Path, panel: str = "queues", config: str = CONFIG) -> AsyncIterator[World]:
    """A daemon with two nodes of 4 vcores, whose page is open at a panel."""
    await trio.Path(file).write_text(config)
    async with real_daemon("--config", file, http="127.0.0.1:0") as daemon, connect(daemon.url, rm_id="rm") as rm:
        await rm.request(node("n1"))
        await rm.request(node("n2"))
        await page.open(f"{daemon.http}/#{panel}")
        await page.until("document.getElementById('status')?.dataset.state == 'live'")
        yield World(daemon, rm, page)
        await page.open("about:blank")  # before the daemon ends, which would be an error in the console


async def some_work(rm: ResourceManager) -> None:
    """Two asks run in root.test.b, which is full then, and one waits."""
    await rm.request(application("app-1", "root.test.b"))
    await rm.request(asks("t1", "t2", "t3"))
    assert len(await next_allocated(rm, 2)) == 2
