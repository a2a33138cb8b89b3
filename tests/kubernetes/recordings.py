"""Plays a recorded dialogue with a real API server again, and compares the answers by what the adapter reads of them.

Uids, versions and continue tokens of the recording are translated into those of the server that answers now: what is the same in
the recording has to be the same again, and versions have to have the same order.
"""

from __future__ import annotations

import bisect
import json
import re
import ssl
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import trio
from httpx2 import AsyncClient, Response, TransportError

from ykactor.kubernetes import model
from ykactor.kubernetes.quantities import QuantityError, parse

Body = dict[str, Any]
Step = dict[str, Any]

_TYPES: dict[str, type] = {
    "Pod": model.Pod,
    "Node": model.Node,
    "Namespace": model.Namespace,
    "ConfigMap": model.ConfigMap,
    "PriorityClass": model.PriorityClass,
    "PodDisruptionBudget": model.PodDisruptionBudget,
    "PodGroup": model.PodGroup,
    "Lease": model.Lease,
    "Status": model.Status,
}
#: Events of a watch that are not there after this time never come.
_EVENTS_S = 60.0
#: A watch that the server ends has ended after this time, the longest by itself after 7 s.
_END_S = 60.0


def load(path: Path) -> list[Step]:
    with path.open() as lines:
        return [json.loads(line) for line in lines]


class Translation:
    """Map from the names in a recording to those on the server that answers."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._versions: dict[int, int] = {}

    def learn(self, recorded: Any, found: Any) -> None:
        """Compare the places where names are that a server gives."""
        if isinstance(recorded, dict) and isinstance(found, dict):
            for name in recorded.keys() & found.keys():
                self._learn_field(name, recorded[name], found[name])
        elif isinstance(recorded, list) and isinstance(found, list):
            for left, right in zip(recorded, found, strict=False):
                self.learn(left, right)

    def _learn_field(self, name: str, recorded: Any, found: Any) -> None:
        if name == "resourceVersion":
            self._versions.setdefault(int(recorded), int(found))
        elif name in ("uid", "continue"):
            self._names.setdefault(recorded, found)
        else:
            self.learn(recorded, found)

    def translated(self, text: str) -> str:
        """A path or a body as it is for this server."""
        for name, value in self._names.items():
            text = text.replace(name, value)
        return text

    def version(self, recorded: int) -> int:
        """A version; one of which nothing is known is that of the newest known before it, and one of the future stays one."""
        known = sorted(self._versions)
        if recorded in (0, 1) or recorded > known[-1] + 1000:
            return recorded
        place = bisect.bisect_right(known, recorded)
        return self._versions[known[place - 1]] if place else 1

    def disorder(self) -> list[str]:
        """Versions whose order is another one than in the recording."""
        pairs = sorted(self._versions.items())
        return [f"{one} then {two}" for one, two in pairwise(pairs) if one[1] > two[1]]


class Replay:
    """Plays the steps in order.

    Args:
        tokens: of the users in the recording.
        matters: True for a step whose answer is compared; the others only set the scene.
        before: called with each step before it is played; True if that was all there is to do.
        tls: for a server that has TLS.

    Attributes:
        differences: what was answered otherwise, by the title of the step.
        compared: how many steps were.
    """

    def __init__(
        self,
        url: str,
        tokens: dict[str | None, str],
        matters: Callable[[Step], bool],
        before: Callable[[Step], bool],
        tls: ssl.SSLContext | bool = True,
    ) -> None:
        self._client = AsyncClient(base_url=url, timeout=None, trust_env=False, verify=tls)
        self._tokens = tokens
        self._matters = matters
        self._before = before
        self._translation = Translation()
        self._events: dict[str, tuple[trio.Event, list[Body]]] = {}
        self.differences: dict[str, str] = {}
        self.compared = 0

    async def play(self, steps: list[Step]) -> None:
        """Play all steps; watches are opened where they were, and compared at the step that has their events."""
        async with self._client, trio.open_nursery() as nursery:
            for step in steps:
                for watch in steps:
                    if watch.get("opened_before_step") == step["n"] and self._matters(watch):
                        await nursery.start(self._watch, watch)
                if self._before(step):
                    continue
                if "events" in step and self._matters(step):
                    await self._compare_watch(step)
                elif "events" not in step and (self._matters(step) or _sets_the_scene(step)):
                    await self._request(step)
            nursery.cancel_scope.cancel()
        if disorder := self._translation.disorder():
            self.differences["order of versions"] = ", ".join(disorder)

    def _path(self, step: Step) -> str:
        path, _, query = self._translation.translated(step["path"]).partition("?")
        parts = [part.partition("=") for part in query.split("&") if part]
        values = [
            (name, str(self._translation.version(int(value))) if name == "resourceVersion" else value) for name, _, value in parts
        ]
        return path + ("?" if values else "") + "&".join(f"{name}={value}" for name, value in values)

    def _headers(self, step: Step) -> dict[str, str]:
        token = self._tokens[step["user"]]
        return {**step["headers"], **({"authorization": f"Bearer {token}"} if token else {})}

    async def _request(self, step: Step) -> None:
        body = step["body"]
        text = body if isinstance(body, str) else "" if body is None else self._translation.translated(json.dumps(body))
        if isinstance(body, dict) and "resourceVersion" in (meta := body.get("metadata", {})):
            old = meta["resourceVersion"]
            text = text.replace(f'"{old}"', f'"{self._translation.version(int(old))}"')
        try:
            answer = await self._client.request(step["method"], self._path(step), content=text, headers=self._headers(step))
            status, found = answer.status_code, _json(answer)
        except TransportError:
            status, found = None, None
        self._translation.learn(step.get("response"), found)
        if self._matters(step):
            self._compare(step, (step["status"], step.get("response")), (status, found))

    def _compare(self, step: Step, recorded: tuple[int | None, Any], found: tuple[int | None, Any]) -> None:
        self.compared += 1
        wanted = json.loads(self._translation.translated(json.dumps(recorded[1])))
        is_short = bool(step.get("trimmed"))
        left, right = (recorded[0], _read(wanted, is_short)), (found[0], _read(found[1], is_short))
        if left != right:
            self.differences[step["title"]] = next(_differences(left, right))

    async def _watch(self, step: Step, task_status: trio.TaskStatus[None]) -> None:
        ended, events = self._events[step["title"]] = trio.Event(), list[Body]()
        try:
            async with self._client.stream("GET", self._path(step), headers=self._headers(step)) as answer:
                task_status.started()
                if answer.status_code >= 400:
                    events.append({"type": str(answer.status_code), "object": {}})
                async for line in answer.aiter_lines():
                    events.append(json.loads(line))
        except TransportError:
            pass  # cut
        ended.set()

    async def _compare_watch(self, step: Step) -> None:
        ended, events = self._events[step["title"]]
        wanted = [each for each in step["events"] if each["type"] != "BOOKMARK"]
        is_endless = step["ended_by"] == "client"
        with trio.move_on_after(_EVENTS_S if is_endless else _END_S):
            if is_endless:
                while len(_told(events)) < len(wanted):  # noqa: ASYNC110
                    await trio.sleep(0.001)
            else:
                await ended.wait()
        found = _told(events)
        self._translation.learn(wanted, found)
        if "resourceVersion=" not in step["path"] or "resourceVersion=0&" in step["path"]:  # a cache has no order
            wanted, found = (sorted(part, key=_name_of) for part in (wanted, found))
        left = [[each["type"], each["object"]] for each in wanted]
        right = [[each["type"], each["object"]] for each in found]
        has_bookmarks = len(step["events"]) == len(wanted) or len(events) > len(found)  # how many is a matter of time
        self._compare(step, (True, left), (has_bookmarks, right))


def _name_of(event: Body) -> str:
    return str(event["object"]["metadata"].get("name"))


def _told(events: list[Body]) -> list[Body]:
    return [each for each in events if each["type"] != "BOOKMARK"]


def _sets_the_scene(step: Step) -> bool:
    is_write = step["method"] in ("POST", "PUT", "PATCH", "DELETE")
    return is_write and (step["status"] or 500) < 300 and "dryRun" not in step["path"]


def _json(answer: Response) -> Any:
    return answer.json() if answer.headers["content-type"].startswith("application/json") else answer.text


# ---- what the adapter reads


def _read(found: Any, is_short: bool) -> Any:
    """The part of an answer that the adapter reads, with versions left out, and quantities as numbers."""
    match found:
        case list():
            return [_read(each, is_short) for each in found]
        case {"items": items, "metadata": meta}:
            there, kind = "continue" in meta, found["kind"].removesuffix("List")
            return (there,) if is_short else (there, _in_order([_seen({**each, "kind": kind}) for each in items]))
        case {"kind": "APIResourceList", "resources": resources}:
            return "podgroups" in {each["name"] for each in resources}
        case {"versions": versions}:
            return [each["version"] for each in versions]
        case {"kind": "SelfSubjectAccessReview", "status": status}:
            return bool(status.get("allowed"))
        case {"kind": "Status", "status": "Failure"}:
            return found["reason"] if found.get("reason") else "", _sentence(found)
        case dict():
            return _seen(found)
    return None if isinstance(found, str) and found.count(" ") > 1 else found


def _in_order(found: list[Any]) -> list[Any]:
    """The objects of a page; a cache may give them in any order."""
    return sorted(found, key=lambda each: (each["metadata"]["namespace"], each["metadata"]["name"]))


def _sentence(status: Body) -> str:
    """The message of a conflict about a pod, which says what kind of one it is."""
    message: str = re.sub(r"Key: \S+, ResourceVersion: 0, ", "", status["message"])
    return message if status["code"] == 409 and "pod" in message.lower() else ""


def _seen(found: Body) -> Any:
    kind = _TYPES.get(found.get("kind", ""), model.Object)
    read = msgspec.to_builtins(msgspec.json.decode(json.dumps(_sorted(found)), type=kind))
    read.get("metadata", {}).pop("resourceVersion", None)
    return dict(_plain(read))


def _sorted(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _sorted(found[name]) for name in sorted(found)}
    return [_sorted(each) for each in found] if isinstance(found, list) else found


def _plain(found: Body) -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if name in ("requests", "allocatable", "allocatedResources", "overhead"):
            yield name, {key: _number(each) for key, each in value.items()}
        elif name.endswith("Timestamp"):
            yield name, value is not None
        elif isinstance(value, dict):
            yield name, dict(_plain(value))
        elif isinstance(value, list | tuple):
            yield name, [dict(_plain(each)) if isinstance(each, dict) else each for each in value]
        else:
            yield name, value


def _number(text: str) -> int | str:
    try:
        return parse(text, scale=3, up=True)
    except QuantityError:
        return text


def _differences(wanted: Any, found: Any, where: str = "") -> Iterator[str]:
    """The places where two answers differ."""
    if isinstance(wanted, dict) and isinstance(found, dict) and wanted.keys() == found.keys():
        for name in wanted:
            yield from _differences(wanted[name], found[name], f"{where}.{name}")
    elif isinstance(wanted, list | tuple) and isinstance(found, list | tuple) and len(wanted) == len(found):
        for number, pair in enumerate(zip(wanted, found, strict=True)):
            yield from _differences(*pair, f"{where}[{number}]")
    elif wanted != found:
        yield f"{where} is {found}, wanted {wanted}"
