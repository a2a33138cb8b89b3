"""Plays the recorded dialogue with the real server of now, and compares what it answers with what was recorded."""

from __future__ import annotations

import json
import signal
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import realprocesses
from realprocesses import Processes, version
from realserver import RealServer
from recordings import Replay, Step, load

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "kubernetes"
TOKENS = {"admin": "admin-token", "yk": "yk-token", "alice": "alice-token", "badtoken": "wrong", None: ""}
#: What is not the same each time on one server, by a part of the title.
CHANCE = {
    "a watch while the server starts": "how far it has started is a matter of time",
}
_FULL = ("--max-requests-inflight=1", "--max-mutating-requests-inflight=1", "--enable-priority-and-fairness=false")


class Scene:
    """Does to the server and its store what was done beside requests."""

    def __init__(self, server: RealServer) -> None:
        self._server = server
        self._holding: list[ssl.SSLSocket] = []
        self._acts: dict[str, Callable[[], None]] = {
            "a list meanwhile": self._stop,
            "a list after its end": lambda: self._processes.kill("apiserver", signal.SIGTERM),
            "after a restart: next page of a compacted version": self._start,
            "the server is killed (SIGKILL) while a watch runs": lambda: self._processes.kill("apiserver"),
            "a watch while the server starts": self._start,
            "429: the server has too much to do (max-requests-inflight 1)": self._fill,
        }

    @property
    def _processes(self) -> Processes:
        return self._server.processes

    def before(self, step: Step) -> bool:
        """True if that was all there is to do."""
        if step["user"] == "etcd":
            self._server.compact()
            return True
        self._acts.get(step["title"], lambda: None)()
        return False

    def _stop(self) -> None:
        self._processes.tell_to_stop("apiserver")
        while self._processes.accepts():
            time.sleep(0.01)

    def _start(self) -> None:
        self._processes.start("apiserver")
        self._server.wait_ready()

    def _fill(self) -> None:
        """A server that does one thing at a time, and has one of each kind to do."""
        self._processes.kill("apiserver")
        self._processes.start("apiserver", _FULL)
        self._server.wait_ready()
        path = "/apis/events.k8s.io/v1/namespaces/team-a/events"
        for text in ("GET /api/v1/namespaces/team-a/pods?resourceVersion=9000000", f"POST {path}"):
            self._holding.append(self._processes.connected())
            head = f"{text} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer yk-token\r\nContent-Type: application/json\r\n"
            self._holding[-1].sendall(f"{head}Content-Length: {2 if 'POST' in text else 0}\r\n\r\n".encode())
        time.sleep(0.5)


def missing() -> str:
    """The reason for which it cannot be played; "" if it can."""
    return realprocesses.missing() or ("" if RECORDINGS.is_dir() else "no recorded dialogues are beside this checkout")


def recording() -> tuple[Path, bool]:
    """The recording of the newest version that is not newer than the server, and whether it is of this version."""
    known = {tuple(map(int, path.stem.partition("-")[2].split("."))): path for path in RECORDINGS.glob("dialogue-*.jsonl")}
    fitting = max(each for each in known if each <= version())
    return known[fitting], fitting == version()


async def replay(directory: Path) -> str:
    """Play it; returns figures. Raises if a server of a recorded version answers otherwise, but for chance."""
    path, is_same = recording()
    steps = load(path)
    with RealServer(directory).running() as server:
        scene = Scene(server)
        played = Replay(server.url, TOKENS, _matters, scene.before, server.processes.tls())
        await played.play(steps)
    differences = json.dumps(played.differences, indent=1)
    assert not (is_same and played.differences), differences
    told = f"{played.compared} steps compared with {path.name}, {len(played.differences)} differ"
    return told + (f": {differences}" if played.differences else "")


def _matters(step: Step) -> bool:
    return step["matters"] and not any(part in step["title"] for part in CHANCE)
