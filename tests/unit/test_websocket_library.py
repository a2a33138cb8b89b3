"""No private name of the library for websockets is used."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TypeGuard

PACKAGE = Path(__file__).resolve().parents[2] / "ykactor"
LIBRARIES = ("wsproto",)


def private_names(path: Path) -> set[str]:
    """The private names that a file uses of a library that it imports, also the hooks that its classes override."""
    tree = ast.parse(path.read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(LIBRARIES)]
    if not imports:
        return set()
    named = {name.asname or name.name for node in imports for name in node.names}
    found = {name for name in named if name.startswith("_")}
    for node in ast.walk(tree):
        if _is_private(node) and ast.unparse(node.value) not in ("self", "cls", "zlib"):
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


def test_only_public_names_are_used() -> None:
    """Client and daemon alike: another version of the library has the same names."""
    found = {path.relative_to(PACKAGE).as_posix(): private_names(path) for path in PACKAGE.rglob("*.py")}
    assert "wsproto" in (PACKAGE / "client" / "websocket.py").read_text()
    assert {path: names for path, names in found.items() if names} == {}
