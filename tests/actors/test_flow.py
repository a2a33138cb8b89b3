"""The table of who sends what to whom: it cannot deadlock, and it is true."""

import ast
import importlib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from flow import FLOW, Edge, Kind, Role

import ykactor
from ykactor.core.objects.commands import NodeCommand, PlaceBatch, QueueCommand

PACKAGE = Path(ykactor.__file__).parent
SOURCES = [
    path.relative_to(PACKAGE).as_posix() for folder in ("actors", "surfaces") for path in sorted((PACKAGE / folder).rglob("*.py"))
]
#: Methods that wait for room in somebody's inbox; the partition is given the feed's ``give`` under another name.
PUTS = ("put", "give", "_publish")


@cache
def syntax(source: str) -> ast.Module:
    """The syntax tree of a source file."""
    return ast.parse((PACKAGE / source).read_text())


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def waiting_puts(source: str) -> list[type]:
    """The type of each message that a file sends by a put that may wait."""
    found = []
    for function in functions(syntax(source)):
        for node in ast.walk(function):
            if isinstance(node, ast.Await) and isinstance(node.value, ast.Call) and called(node.value) in PUTS:
                (message,) = node.value.args
                found.append(getattr(importlib.import_module(module_of(source)), type_name(message, function)))
    return found


def module_of(source: str) -> str:
    return "ykactor." + source.removesuffix(".py").replace("/", ".")


def called(call: ast.Call) -> str:
    """The method's name."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def type_name(message: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The class that is called to make the message: here, where the name was bound, or by the parameter's annotation."""
    if isinstance(message, ast.Call):
        return ast.unparse(message.func)
    name = ast.unparse(message)
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.targets[0]) == name:
            return ast.unparse(node.value.func)
        if isinstance(node, ast.arg) and node.arg == name and node.annotation is not None:
            return ast.unparse(node.annotation)
    raise AssertionError(f"line {message.lineno}: cannot tell what {name} is: make the message where it is sent")


def test_nobody_waits_in_a_circle() -> None:
    """Following who waits for whom, be it for room or for an answer, never comes back."""
    waiting: dict[Role, set[Role]] = {}
    for edge in FLOW:
        if edge.waits:
            waiting.setdefault(edge.sender, set()).add(edge.receiver)
    order = list(TopologicalSorter(waiting).static_order())  # raises when there is a circle
    assert order.index(Role.PARTITION) < order.index(Role.RM_SESSION)


@pytest.mark.parametrize("role", [Role.QUEUE, Role.NODE, Role.FEED, Role.OUTBOX, Role.JOURNAL])
def test_the_innermost_wait_for_nobody(role: Role) -> None:
    """Owners, the feed and the journal always come back for the next message."""
    assert not [edge for edge in FLOW if edge.sender is role and edge.waits]


def test_every_put_that_waits_is_in_the_table() -> None:
    """Each message that a file sends by a put that may wait is a command of an edge that names the file."""
    for source in SOURCES:
        allowed = [edge.messages for edge in FLOW if edge.kind is Kind.COMMAND and source in edge.sent_in]
        for message in waiting_puts(source):
            assert any(issubclass(message, messages) for messages in allowed), f"{source} waits to send {message.__name__}"


def test_the_check_sees_something() -> None:
    """The functions above find the puts that are known to be there."""
    assert len(waiting_puts("actors/feed.py")) == 2
    assert len(waiting_puts("surfaces/sessions/rm_requests.py")) == 3
    assert len(waiting_puts("actors/partition.py")) == 2


@pytest.mark.parametrize("edge", [edge for edge in FLOW if edge.kind is Kind.COMMAND], ids=lambda e: f"{e.sender}-{e.receiver}")
def test_every_command_of_the_table_is_sent(edge: Edge) -> None:
    """Each message of the table is sent by the files that it names: no edge is left over from code that is gone."""
    sent = {source: set(waiting_puts(source)) for source in edge.sent_in}
    for source, messages in sent.items():
        assert any(issubclass(message, edge.messages) for message in messages), source
    assert set(edge.messages) <= {base for messages in sent.values() for message in messages for base in message.__mro__}


def test_room_is_reserved_only_where_the_table_says_so() -> None:
    """``put_nowait`` is used by the files of reserved edges, and by no other."""
    users = {
        source
        for source in SOURCES
        for node in ast.walk(syntax(source))
        if isinstance(node, ast.Call) and called(node) == "put_nowait"
    } - {"surfaces/log/logs.py"}  # a queue to the thread of the log, not a channel between tasks
    assert users == {source for edge in FLOW if edge.kind is Kind.RESERVED for source in edge.sent_in}


def test_room_is_awaited_only_where_the_table_says_so() -> None:
    """Every wait for room in the journal is in the table, which proves that there is no circular wait."""
    waiting = {
        source
        for source in SOURCES
        for node in ast.walk(syntax(source))
        if isinstance(node, ast.Await) and isinstance(node.value, ast.Call) and called(node.value) in ("room", "_room")
    }
    assert waiting == {source for edge in FLOW if edge.kind is Kind.ROOM for source in edge.sent_in}


@pytest.mark.parametrize(
    ("role", "commands"),
    [(Role.QUEUE, set(QueueCommand.__subclasses__())), (Role.NODE, set(NodeCommand.__subclasses__()))],
)
def test_owners_get_exactly_the_commands_of_their_cores(role: Role, commands: set[type]) -> None:
    """Each command that a core handles has one sender, but that a cycle and what changes nodes send them what is placed there."""
    sent = [message for edge in FLOW if edge.receiver is role for message in edge.messages]
    assert set(sent) == commands
    assert [message for message in commands if sent.count(message) > 1] == ([PlaceBatch] if role is Role.NODE else [])
