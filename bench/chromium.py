"""A headless Chromium over the Chrome DevTools protocol.

This needs no library but the one for websockets, and no driver that has to fit the version of the browser.
"""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, open_websocket_url

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-extensions", "--no-first-run", "--mute-audio")
#: How long the browser may take to start, and how long anything may take to happen in a page.
START_S = 60
HAPPEN_S = 60
#: Keys that are no characters, with their numbers.
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36}
KEYS |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
#: Of an element, where it is when it is in view.
_PLACE = "(e => { e.scrollIntoView({block: 'nearest'}); return e.getBoundingClientRect().toJSON(); })"


def installed() -> str | None:
    """The path of the browser; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def running(directory: Path) -> Iterator[str]:
    """A browser with its profile in a directory, until the block ends; the URL of its DevTools."""
    path = installed()
    assert path is not None
    with (directory / "log").open("wb") as log:
        options = (*OPTIONS, "--remote-debugging-port=0", f"--user-data-dir={directory}")
        process = subprocess.Popen([path, *options, "about:blank"], stdout=log, stderr=log)
    try:
        yield _url(directory, process)
    finally:
        process.kill()
        process.wait()


def _url(directory: Path, process: subprocess.Popen[bytes]) -> str:
    file, deadline = directory / "DevToolsActivePort", time.monotonic() + START_S
    while not file.exists() or len(lines := file.read_text().split("\n")) < 2:
        assert process.poll() is None, (directory / "log").read_text()
        assert time.monotonic() < deadline, "the browser does not start"
        time.sleep(0.02)
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"


class Page:
    """A page of the browser, with a storage of its own.

    Attributes:
        errors: what the console has shown as an error, and what no script has caught.
    """

    def __init__(self, connection: WebSocketConnection) -> None:
        self.errors: list[str] = []
        self._connection = connection
        self._session: dict[str, str] = {}
        self._traced: list[dict[str, Any]] | None = None
        self._has_traced = trio.Event()
        self._number = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._answered = trio.Condition()

    async def begin(self) -> None:
        """Open an empty page."""
        context = (await self.send("Target.createBrowserContext"))["browserContextId"]
        target = (await self.send("Target.createTarget", url="about:blank", browserContextId=context))["targetId"]
        session = (await self.send("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        self._session = {"sessionId": session}
        for domain in ("Page", "Runtime", "Log"):
            await self.send(f"{domain}.enable")
        await self.resize(1280, 800)

    async def listen(self) -> None:
        """Take in what the browser says until the connection ends."""
        while True:
            try:
                message = json.loads(await self._connection.get_message())
            except ConnectionClosed:
                return
            if "id" in message:
                async with self._answered:
                    self._answers[message["id"]] = message
                    self._answered.notify_all()
            else:
                self._note(message["method"], message["params"])

    def _note(self, method: str, told: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(told["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.errors.append(str([argument.get("value") for argument in told["args"]]))
        elif method == "Tracing.dataCollected" and self._traced is not None:
            self._traced += told["value"]
        elif method == "Tracing.tracingComplete":
            self._has_traced.set()
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")

    async def send(self, method: str, **parameters: Any) -> Any:
        """Send a command to the page; what it returns."""
        return await self._send(method, parameters, self._session)

    async def _send(self, method: str, parameters: dict[str, Any], session: dict[str, str]) -> Any:
        self._number = number = self._number + 1
        await self._connection.send_message(json.dumps({"id": number, "method": method, "params": parameters, **session}))
        with trio.fail_after(HAPPEN_S):
            async with self._answered:
                while number not in self._answers:
                    await self._answered.wait()
        answer = self._answers.pop(number)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    async def begin_trace(self) -> None:
        """Trace the browser until ``end_trace``."""
        self._traced, self._has_traced = [], trio.Event()
        await self._send("Tracing.start", {"traceConfig": {"includedCategories": ["toplevel"], "excludedCategories": ["*"]}}, {})

    async def end_trace(self) -> list[float]:
        """The CPU time of each step of the main threads of pages since ``begin_trace``, in ms."""
        await self._send("Tracing.end", {}, {})
        with trio.fail_after(HAPPEN_S):
            await self._has_traced.wait()
        events, self._traced = self._traced or [], None
        threads = _main_threads(events)
        steps = (event for event in events if event["ph"] == "X" and (event["pid"], event["tid"]) in threads)
        return [event["tdur"] / 1000 for event in steps if "tdur" in event]

    # ---- what a test does

    async def open(self, url: str) -> None:
        """Go to a URL."""
        await self.send("Page.navigate", url=url)

    async def run(self, script: str) -> Any:
        """The value of an expression in the page, also one that has to be awaited."""
        found = await self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, (script, found["exceptionDetails"])
        return found["result"].get("value")

    async def until(self, script: str) -> Any:
        """Wait until an expression is true; its value."""
        deadline, found = trio.current_time() + HAPPEN_S, None
        while not (found := await self.run(script)):
            assert trio.current_time() < deadline, f"{script} did not become true; {await self.run('document.body.innerText')}"
            await trio.sleep(0.03)
        return found

    async def click(self, script: str, *, x: float = 0.5, y: float = 0.5) -> None:
        """Click an element, by an expression for it, when it is there; ``x`` and ``y`` are parts of its width and height."""
        await self.until(f"({script})?.getClientRects().length")
        place = await self.run(f"{_PLACE}({script})")
        at = {"x": place["x"] + x * place["width"], "y": place["y"] + y * place["height"]}
        for kind in ("mousePressed", "mouseReleased"):
            await self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    async def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            text = {"text": "\r"} if key == "Enter" else {"text": key} if key not in KEYS else {}
            of_key = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS.get(key, 0)}
            await self.send("Input.dispatchKeyEvent", type="keyDown", **of_key, **text)
            await self.send("Input.dispatchKeyEvent", type="keyUp", **of_key)

    async def type(self, text: str) -> None:
        """Type a text where the focus is."""
        await self.send("Input.insertText", text=text)

    async def resize(self, width: int, height: int, scale: float = 1) -> None:
        """Another size of the window; a narrow one is a phone."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale}
        await self.send("Emulation.setDeviceMetricsOverride", mobile=width < 700, **size)

    async def darken(self) -> None:
        """Emulate a system with dark colours."""
        await self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    async def picture(self) -> bytes:
        """A PNG of what is seen."""
        return base64.b64decode((await self.send("Page.captureScreenshot", format="png"))["data"])


def _main_threads(events: list[dict[str, Any]]) -> set[tuple[int, int]]:
    names = (event for event in events if event["name"] == "thread_name")
    return {(event["pid"], event["tid"]) for event in names if event["args"]["name"] == "CrRendererMain"}


@asynccontextmanager
async def new_page(url: str) -> AsyncIterator[Page]:
    """A page of the browser at this URL, until the block ends."""
    async with open_websocket_url(url, max_message_size=2**28, message_queue_size=2**20) as connection:
        async with trio.open_nursery() as nursery:
            page = Page(connection)
            nursery.start_soon(page.listen)
            await page.begin()
            yield page
            nursery.cancel_scope.cancel()
