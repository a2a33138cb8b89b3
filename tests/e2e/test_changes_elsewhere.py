"""AP-155 for callers that may not copy the state: a child of the daemon computes the changes, cut to what they see (SE-84)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from accessfiles import access_of
from callers import control_of, tokens_of
from daemon import new_token, real_daemon, run_command
from restdaemon import Rest, application, node, rest_daemon
from test_explain_changes import QUEUES as ONE_QUEUE

from ykactor.access.view import View
from ykactor.client import connect
from ykactor.core.inspection.changes import (
    AddNode,
    Change,
    DropTerm,
    EndHold,
    Found,
    Free,
    Prioritise,
    Raise,
    Resize,
    Search,
    Undrain,
    Wait,
)
from ykactor.core.inspection.explanation import AskExplanation, LevelStatus
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.names import ANY
from ykactor.surfaces.copies.changes import in_view
from ykactor.wire.si import messages as si

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: p, resources: {max: {vcore: 3}}, queues: [{name: a}, {name: b}]}
"""
READERS = {"all": "", "of-p": ", queues: [root.p]", "of-a": ", queues: [root.p.a]"}
SECRETS = {name: f"yk_{name:_>43}" for name in READERS}
PATH = "/v1/explain/application/app-a"
N1 = NodeID("n1")
OWN, OTHER = (ApplicationID("app-a"), AllocationKey("a1")), (ApplicationID("app-b"), AllocationKey("b1"))
QUEUES_OF = {OWN[0]: QueuePath("root.p.a"), OTHER[0]: QueuePath("root.p.b")}


@asynccontextmanager
async def crowded() -> AsyncIterator[Rest]:
    """A parent of three cores: one task of root.p.b runs, and two of root.p.a, each of one core; another one waits there."""
    text = "\n".join(["identities:", *(f"  - {{name: {name}, roles: [reader]{more}}}" for name, more in READERS.items()), ""])
    access = access_of(text, {"tokens.json": tokens_of(SECRETS)})
    async with rest_daemon(QUEUES, admit=control_of(access).admit) as rest:
        await rest.submit(node("n1"), application("app-b", "root.p.b"), application("app-a", "root.p.a"))
        for owner, keys in (("app-b", ["b1"]), ("app-a", ["a1", "a2", "a3"])):
            tasks = [si.Allocation(key, owner, resource_per_alloc={"vcore": 1000}) for key in keys]
            await rest.submit(si.AllocationRequest(allocations=tasks))
        yield rest


async def asked(rest: Rest, path: str, name: str, expect: int = 200) -> Any:
    answer = await rest.ask(path, Authorization=f"Bearer {SECRETS[name]}")
    assert answer.status == expect, answer.body
    return answer.content if expect == 200 else answer.content["message"]


def told(explanation: Any) -> list[tuple[str, str]]:
    """The type of the first change of each result, and the node."""
    return [(found["changes"][0]["type"], found["nodeID"]) for found in explanation["changes"]["found"]]


async def test_each_reader_is_told_what_it_sees() -> None:
    """A reader that sees the queue that is short is told of it, another one only of its own tasks; the rest is counted."""
    async with crowded() as rest:
        whole = await asked(rest, f"{PATH}?changes=true", "all")
        assert whole["ask"]["allocationKey"] == "a3"
        assert [kind for kind, _ in told(whole)] == ["Raise", "Free"]
        of_parent = await asked(rest, f"{PATH}?changes=true", "of-p")
        assert told(of_parent) == [(kind, "") for kind, _ in told(whole)]
        assert of_parent["changes"]["others"] == 0
        limited = await asked(rest, f"{PATH}?changes=true&ask=a3", "of-a")
        assert (told(limited), limited["changes"]["others"]) == ([("Free", "")], 1)
        assert limited["changes"]["found"][0]["changes"][0]["tasks"][0][0] == "app-a"
        assert "app-b" not in json.dumps(limited)


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/v1/explain/queue/root.p?changes=true", 400, "found kind queue with changes, expected application or ask"),
        (f"{PATH}?changes=yes", 400, "changes: found 'yes', expected true or false"),
        ("/v1/explain/application/nobody?changes=true", 404, "there is no application nobody"),
        ("/v1/explain/application/app-b?changes=true", 404, "there is no application app-b"),
        (f"{PATH}?changes=true&ask=a9", 404, "application app-a has no task a9"),
        (f"{PATH}?changes=true&partition=other", 404, "Partition not found"),
    ],
)
async def test_what_is_refused(path: str, status: int, text: str) -> None:
    """A mistake, and what a limited reader does not see, which is as if it was not there."""
    async with crowded() as rest:
        assert text in await asked(rest, path, "of-a", status)


async def test_one_at_a_time() -> None:
    """BUSY while another answer is computed."""
    async with crowded() as rest:
        with rest.admission.computing.claimed():
            assert (await asked(rest, f"{PATH}?changes=true", "all", 503)).startswith("BUSY: ")
        assert told(await asked(rest, f"{PATH}?changes=true", "all"))


@pytest.mark.parametrize("name", ["reader", "copy"])
async def test_the_command_chooses_the_way(tmp_path: Path, name: str) -> None:
    """A caller with the role replica makes the copy itself, another one asks the daemon; both are told the same."""
    access = tmp_path / "access.yaml"
    lines = ["identities:", "  - {name: rm, roles: [rm], rmIDs: [rm-1], users: [alice]}", "  - {name: copy, roles: [replica]}"]
    access.write_text("\n".join([*lines, "  - {name: reader, roles: [reader]}", ""]))
    access.chmod(0o600)
    (tmp_path / "queues.yaml").write_text(ONE_QUEUE)
    token = tmp_path / "token"
    token.write_text(new_token(name, access))
    login = new_token("rm", access)
    async with real_daemon("--access", access, "--config", tmp_path / "queues.yaml") as daemon:
        async with connect(daemon.url, rm_id="rm-1", token=login) as rm:
            await rm.request(node("n1"))
            await rm.request(application("app-1", "root.a"))
            tasks = [si.Allocation(key, "app-1", resource_per_alloc={"vcore": 2000}) for key in ("t1", "t2")]
            await rm.request(si.AllocationRequest(allocations=tasks))
            arguments = ("explain", "app-1", "--changes", "--url", daemon.url, "--token-file", token)
            output, errors = await run_command(*arguments, "-o", "json")
            document = json.loads(output)
            assert (errors, document["allocationKey"]) == ("", "t2")
            assert [found["changes"][0]["type"] for found in document["changes"]["found"]] == ["Raise", "Resize", "Free"]
            printed, _ = await run_command(*arguments)
            assert "  1 raise max vcore of root.a 3 -> 4 " in printed


# ---- the cut, change by change


@pytest.mark.parametrize(
    ("changes", "is_seen"),
    [
        ([Raise(QueuePath("root.p.a"), "user bob", "vcore", 1000, 2000)], True),
        ([Raise(QueuePath("root.p"), "", "vcore", 1000, 2000)], False),
        ([Raise(QueuePath("root.p.a"), "", "", 1, 2), Raise(QueuePath("root.p"), "", "", 1, 2)], False),
        ([EndHold(QueuePath(""))], True),
        ([EndHold(QueuePath("root.p.a"))], True),
        ([EndHold(QueuePath("root"))], False),
        ([Free(N1, [OWN], 5)], True),
        ([Free(N1, [OWN, OTHER], 5)], False),
        ([Free(N1, [(ApplicationID("gone"), AllocationKey("g"))], 5)], False),
        ([DropTerm("zone=a", 0)], True),
        ([Wait(3.0)], True),
        ([AddNode(N1)], False),
        ([Undrain(N1)], False),
        ([Prioritise(0, 5)], False),
    ],
)
def test_what_a_limited_reader_is_told(changes: list[Change], is_seen: bool) -> None:
    """A result is told if all of its changes name only what the reader sees, without a node and in whole milliseconds."""
    view, registry = View(ANY, frozenset(["root.p.a"])), SimpleNamespace(applications=QUEUES_OF)
    core: Any = SimpleNamespace(registry=registry)
    search = Search([Found(changes, N1, 1_234_567)], False, 7)
    assert in_view(search, view, explained(), core) == (
        Search([Found(changes, NodeID(""), 1_000_000)], False, 7) if is_seen else Search([], False, 7, others=1)
    )


@pytest.mark.parametrize(
    ("level", "is_seen"),
    [
        (LevelStatus(queue_name="root.p.a", resource="vcore", used=3, max=3, wants=1, code="QUOTA"), True),
        (LevelStatus(queue_name="root.p", resource="vcore", wants=1, code="QUOTA"), False),
        (LevelStatus(whose="application app-a", code="ORDER"), True),
        (LevelStatus(whose="nodes", code="NODES"), False),
        (LevelStatus(whose="nodes"), True),
    ],
)
def test_how_much_smaller_an_ask_has_to_be(level: LevelStatus, is_seen: bool) -> None:
    """The amount is told where all that is short is seen: else it would tell how much is left of what is hidden."""
    core: Any = SimpleNamespace(registry=SimpleNamespace(applications=QUEUES_OF))
    search = Search([Found([Resize("vcore", 4000, 2000)], N1, 0)], False, 1)
    assert in_view(search, View(ANY, frozenset(["root.p.a"])), explained(level), core).others == (0 if is_seen else 1)


def explained(*levels: LevelStatus) -> AskExplanation:
    times = {"time": 0, "creation_time": 0, "priority": 0, "position": 1, "waiting": 1, "ahead": [], "ahead_count": 0}
    texts = dict.fromkeys(("partition_name", "application_id", "allocation_key", "user", "queue_name", "code", "reason"), "")
    found: dict[str, Any] = {**times, **texts, "resource": {}, "levels": [*levels], "waited": {}}
    return AskExplanation(**found)
