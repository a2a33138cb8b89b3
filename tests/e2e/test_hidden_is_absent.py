"""An object that the caller may not see is answered like an absent one: with the same words, and after the same work (SE-26).

Work is counted in calls of functions, because a time is never the same twice.
"""

import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import pytest
from msgspec import structs
from restdaemon import Rest, application, asks, node, rest_daemon

from ykactor.access.credentials import Credentials
from ykactor.access.model import ANYBODY, Names, Role
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.http.app import Route
from ykactor.surfaces.http.routes import Services, routes
from ykactor.surfaces.http.session import Websockets
from ykactor.surfaces.sessions.config_updates import ConfigUpdates
from ykactor.surfaces.sessions.operator_session import OperatorRequests
from ykactor.wire.si import messages as si
from ykactor.wire.si.protocol_error import ProtocolError

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: open}
          - {name: shut, limits: [{limit: l, users: [shut], groups: [shut], maxapplications: 9}]}
  - name: shut
    queues: [{name: root, submitacl: "*", queues: [{name: x}]}]
"""
LIMITED = structs.replace(ANYBODY, name="limited", queues=frozenset({"root.open"}), partitions=Names.of(["default"]))
#: Names of the same length; the first is that of everything that is hidden.
HIDDEN, ABSENT, FIRST = "shut", "none", "nobd"
TASKS = 200
#: Where work for a question is done, and nothing else meanwhile.
COUNTED = re.compile(
    "/ykactor/(access|core/(inspection|objects|partition/(operations|administration))|"
    "surfaces/http/(readings/|api|published)|surfaces/sessions/operator_session)"
)


def limited(role: Role, shown: Credentials, origin: str) -> Caller:
    return Caller(role, origin, LIMITED)


@pytest.fixture
async def rest() -> AsyncIterator[Rest]:
    """A partition, a queue, an application, a user, a group and a node with the name ``HIDDEN``."""
    async with rest_daemon(CONFIG, admit=limited) as rest:
        await rest.submit(node(HIDDEN), application("ours", "root.open"), asks("ours", 3))
        await rest.submit(application(HIDDEN, f"root.{HIDDEN}", HIDDEN, HIDDEN), asks(HIDDEN, TASKS))
        yield rest


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """The calls within the block, by function."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        name, what = frame.f_code.co_filename, frame.f_code.co_qualname
        if event == "call" and COUNTED.search(name) and not what.startswith("Pages."):  # those kept are more with each question
            calls[f"{name.rpartition('/')[2]}:{what}"] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(before)


async def answered(ask: Callable[[str], Awaitable[object]], name: str) -> tuple[object, Counter[str]]:
    """The answer about what has a name, which is put in as if all names were the same, and the work done for it."""
    with counted() as calls:
        answer = await ask(name)
    return str(answer).replace(name, "NAME"), calls


async def difference(ask: Callable[[str], Awaitable[object]]) -> object:
    """The difference between hidden and absent objects; None if there is none. The first question fills what is kept."""
    await ask(FIRST)
    (hidden, more), (absent, less) = await answered(ask, HIDDEN), await answered(ask, ABSENT)
    return None if (hidden, more) == (absent, less) else (hidden, absent, more - less, less - more)


def all_routes(rest: Rest) -> list[Route]:
    return routes(Services(rest.daemon, None, rest.stopping, Websockets([]), rest.daemon))  # type: ignore[arg-type]


def paths(rest: Rest) -> set[str]:
    """The paths of each route with names, one for each of its names: ``{name}`` is what is asked about."""
    names = {"{partition}": "default", "{queue}": "root.open", "{state}": "active"}
    found = set()
    for route in all_routes(rest):
        for part in ("{partition}", "{queue}", "{app}", "{user}", "{group}", "{node}"):
            path = route.path.replace(part, "root.{name}" if part == "{queue}" else "{name}")
            for other, name in names.items():
                path = path.replace(other, name)
            if part in route.path and path.count("{") == 1:
                found.add(path)
    return found


async def test_routes(rest: Rest) -> None:
    """SE-26, SE-88: of each kind of name that a path can have."""

    async def ask(path: str, name: str) -> object:
        answer = await rest.ask(path.format(name=name))
        return answer.status, answer.body

    asked = paths(rest)
    assert {"/ws/v1/partition/default/application/{name}", "/ws/v1/partition/{name}/queues"} < asked
    found = {path: await difference(partial(ask, path)) for path in sorted(asked)}
    assert found == dict.fromkeys(found)


def operations(name: str) -> list[si.OperatorRequest]:
    """The requests that an operator can make about an application or a task."""
    return [
        si.TerminateApplication(application_id=name),
        si.MoveApplication(application_id=name, queue_name="root.open"),
        si.HoldApplication(application_id=name),
        si.CancelAllocation(application_id=name, allocation_key=f"{name}-1"),
        si.SetPriority(application_id=name, priority=1),
        si.SetPriority(application_id=name, allocation_key=f"{name}-1", priority=1),
        si.ExpectNoAllocations(allocation_keys=[f"{name}-1"]),
    ]


async def test_operations(rest: Rest) -> None:
    """SE-26, SE-71: of each request of an operator."""
    audit = rest.daemon.audit
    by = OperatorRequests(rest.daemon, ConfigUpdates(rest.daemon, audit), Caller(Role.OPERATOR, "here", LIMITED), audit)

    async def ask(number: int, name: str) -> object:
        try:
            return await by.carry_out(operations(name)[number])
        except ProtocolError as error:
            return error

    found = {number: await difference(partial(ask, number)) for number in range(len(operations("")))}
    assert found == dict.fromkeys(found)


async def test_no_checksum_confirms_a_guess(rest: Rest) -> None:
    """SE-88: who has the right text of a configuration that it may not read is answered as who has another one."""
    right, wrong = CONFIG.encode(), f"{CONFIG}# not this one".encode()
    answers = [await rest.ask("/ws/v1/validate-conf", "POST", guess) for guess in (right, wrong)]
    assert [answer.content for answer in answers] == [{"allowed": True}] * 2
    for path in paths(rest) | {route.path for route in all_routes(rest) if "{" not in route.path and "stream" not in route.path}:
        answer = await rest.ask(path.format(name="root.open"))
        assert rest.daemon.config.checksum.encode() not in answer.body
