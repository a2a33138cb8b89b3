"""The private names of the websocket libraries that are used, which are still what they were."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import TypeGuard

import trio_websocket

PACKAGE = Path(__file__).resolve().parents[2] / "ykactor"
LIBRARIES = ("trio_websocket", "wsproto")
#: What ``wrap_client_stream`` does with a new connection; it has no parameter for the protocol, which compresses.
OPENING = ("nursery.start_soon(connection._reader_task)", "await connection._open_handshake.wait()")


def private_names(path: Path) -> set[str]:
    """The private names that a file uses of a library that it imports, also the hooks that its classes override."""
    tree = ast.parse(path.read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(LIBRARIES)]
    if not imports:
        return set()
    named = {name.asname or name.name for node in imports for name in node.names}
    found = {name for name in named if name.startswith("_")}
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in ast.walk(tree):
        if _is_private(node) and node.attr not in own and ast.unparse(node.value) not in ("self", "cls", "zlib"):
            found.add(node.attr)
        if isinstance(node, ast.ClassDef) and {ast.unparse(base) for base in node.bases} & named:
            found |= inherited_names(node)
    return found


def inherited_names(kind: ast.ClassDef) -> set[str]:
    """The private names of ``self`` that a class neither sets nor defines, and the private methods that it may override."""
    own = {node for node in ast.walk(kind) if _is_private(node) and ast.unparse(node.value) == "self"}
    made = {node.attr for node in own if isinstance(node.ctx, ast.Store)}
    methods = {node.name for node in kind.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    hooks = {name for name in methods if name.startswith("_") and not name.startswith("__")}
    return ({node.attr for node in own} - made | hooks) - OWN


def _is_private(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")


#: A private method of our own in a class that inherits from one of the libraries, which has none of that name.
OWN = {"_decompressed"}


def test_the_client_alone_uses_private_names() -> None:
    """Two to open a connection, and two to bound the bytes of what is not read; the daemon has public names only."""
    found = {path.relative_to(PACKAGE).as_posix(): private_names(path) for path in PACKAGE.rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {
        "client/connection.py": {"_reader_task", "_open_handshake", "_send_channel", "_recv_channel"}
    }


def test_messages_go_through_the_two_channels() -> None:
    """The library bounds the number of messages that wait, the client also their bytes: in the channel between both ends."""
    uses = {
        "__init__": "self._send_channel, self._recv_channel = trio.open_memory_channel[",
        "get_message": "message = await self._recv_channel.receive()",
        "_handle_message_event": "await self._send_channel.send(msg)",
    }
    for name, line in uses.items():
        assert line in inspect.getsource(getattr(trio_websocket.WebSocketConnection, name)), name


def test_the_library_opens_a_connection_as_the_client_does() -> None:
    """The client does what these two lines of the library do; another version may have others."""
    lines = [line.strip() for line in inspect.getsource(trio_websocket.wrap_client_stream).splitlines()]
    assert [line for line in lines if "connection._" in line] == list(OPENING)
    client = (PACKAGE / "client" / "connection.py").read_text()
    assert [line.strip() for line in client.splitlines() if "await connection._" in line] == [
        "await connection._open_handshake.wait()",
        "await connection._reader_task()",
    ]
