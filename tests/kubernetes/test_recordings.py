"""The fake API server answers the same as real ones did in recorded dialogues."""

import json
import re
from pathlib import Path

import pytest
import trio
from fakehttp import Refused, Request
from fakeserver import FakeServer
from fakestore import Store
from manifests import permissions
from recordings import Replay, Step, load
from trio.testing import MockClock

from ykactor.kubernetes.messages import Kind, Unreadable
from ykactor.kubernetes.model import Status
from ykactor.kubernetes.reflector import Reader

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "kubernetes"
#: What the adapter never does, and the fake does not do either; by a part of the title.
NOT_SERVED = {
    "groups and their versions": "the adapter asks for one group",
    "JSON patch (test)": "the adapter sends merge patches, and the fake knows no other ones",
    "429: eviction": "the adapter evicts nobody",
    "metadata only": "the adapter reads whole objects",
    "watch of events": "the adapter watches none",
    "the continue of that answer": "the adapter lists again from the beginning",
    "resize larger than the node": "a server refuses it, so nothing comes to the adapter",
    "SIGTERM": "the fake is stopped in the campaigns of kills",
    "a list meanwhile": "the same",
    "a watch while the server starts": "the same",
    "a list after its end": "the same",
}
TOKENS = {"admin": "admin", "yk": "yk", "alice": "alice", "badtoken": "bad", None: ""}


class Scene:
    """Does to the fake server what was done to the real one beside requests."""

    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self._roles: list[dict[str, object]] = []

    def before(self, step: Step) -> bool:
        """True if that was all there is to do."""
        kind = step["path"].rpartition("/")[2]
        if kind in ("clusterroles", "roles"):
            self._roles.append({"kind": "Role" if kind == "roles" else "ClusterRole", **step["body"]})
            self._server.users["yk"] = permissions(self._roles, "ykactor")
        elif kind.endswith("rolebindings"):
            pass
        elif step["user"] == "etcd":
            self._server.store.compact(is_cached=True)
        else:
            return self._fault(step["title"])
        return True

    def _fault(self, title: str) -> bool:
        server = self._server
        if title == "a list after its end":  # a server that has just started knows nothing that was compacted
            server.store.compact()
        elif "SIGKILL" in title:
            server.cut_watches()
        elif title.startswith("429: the server"):
            server.faults = self._refuse
        return False

    async def _refuse(self, _: Request) -> None:
        raise Refused(429, "TooManyRequests", "too many requests", "Too many requests, please try again later.\n")


async def replay(steps: list[Step], kubernetes: str) -> Replay:
    async with FakeServer(Store(kubernetes)).running() as server:
        server.users["alice"] = set()
        played = Replay(server.url, TOKENS, lambda step: step["matters"] and is_served(step), Scene(server).before)
        await played.play(steps)
        return played


def is_served(step: Step) -> bool:
    return not any(part in step["title"] for part in NOT_SERVED)


def test_the_fake_is_small() -> None:
    """So small that a reader can trust it; what it imports from here besides its own files has other users too."""
    folder = Path(__file__).parent
    imports = {path.stem: set(re.findall(r"^from (\w+) import", path.read_text(), re.MULTILINE)) for path in folder.glob("*.py")}
    own = {name for name in imports if name.startswith("fake")}
    assert sum((folder / f"{name}.py").read_text().count("\n") for name in own) <= 500
    shared = set().union(*(imports[name] for name in own)) & imports.keys() - own
    assert all(any(name in imports[other] for other in imports.keys() - own) for name in shared)


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="the recorded dialogues are not beside this checkout")
@pytest.mark.parametrize("kubernetes", ["1.36", "1.20"])
def test_the_fake_answers_as_a_real_server(kubernetes: str) -> None:
    """Status, reason, and what the adapter reads, of all steps that matter but those that are left out by name."""
    steps = load(RECORDINGS / f"dialogue-{kubernetes}.jsonl")
    played = trio.run(replay, steps, kubernetes, clock=MockClock(rate=30))
    assert not played.differences, "\n".join(f"{title}: {text}" for title, text in played.differences.items())
    left_out = {part for part in NOT_SERVED for step in steps if step["matters"] and part in step["title"]}
    assert left_out == NOT_SERVED.keys()
    assert played.compared == sum(step["matters"] and is_served(step) for step in steps) > 130


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="the recorded dialogues are not beside this checkout")
@pytest.mark.parametrize("kubernetes", ["1.36", "1.20"])
def test_all_that_real_servers_sent_can_be_read(kubernetes: str) -> None:
    """Pages and events of watches, bookmarks among them."""
    count = 0
    for step in load(RECORDINGS / f"dialogue-{kubernetes}.jsonl"):
        kind = step["path"].partition("?")[0].rpartition("/")[2]
        if kind not in set(Kind) or step.get("trimmed") or "Accept" in step["headers"]:
            continue
        reader = Reader(Kind(kind))
        for event in step.get("events", ()):
            found = reader.event(json.dumps(event).encode())
            assert isinstance(found, Status) or (found.version and not isinstance(found.stimulus, Unreadable)), found
            count += 1
        if isinstance(step.get("response"), dict) and "items" in step["response"]:
            assert not reader.page(json.dumps(step["response"]).encode()).unreadable
            count += 1
    assert count > 200
