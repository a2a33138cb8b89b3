"""Each changed row is noted (``messages.changed``): the code that changes what a row contains is read, and must note it.

What the rows of applications, tasks, queues and nodes contain is in the table of ``test_what_is_kept``. Only the object that has
it changes it, and each method that does notes the row itself. Mappings of which each item is a row (``KeptRows``) note it in any
case. That the noted rows are all that have changed is played by the random histories of ``tests/property`` (``kept_rows``).
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from test_what_is_kept import KEPT

from ykactor.core.messages import changed

CORE = Path(changed.__file__).parents[1]
#: Who has what the rows contain. In ``Registry`` the set of applications, of which that of a leaf is a part, notes itself.
OWNERS = (
    "Application", "ApplicationAccount", "ApplicationTasks", "Gang", "LeafCore", "Lifecycle", "NodeCore", "NotifiedAsks",
    "ParentCore", "PendingApplication", "Registry",
)  # fmt: skip
#: Parts of an owner that are owners themselves, and what is the same as long as the owner lives.
PARTS = {"account", "application_id", "applications", "gang", "lifecycle", "past", "tasks"}
#: Values in rows, which cannot note anything: who calls a method that changes one notes the row.
VALUES = {"Past": ("past", "_past"), "Account": ("of_day",)}
#: Who sees objects of the scheduler, and of its own state only what ``PendingApplication`` and ``NotifiedAsks`` have is in rows.
SCHEDULER = {"nodes", "planner", "preemption", "queueing", "quota", "state", "waiting"}
OF_SCHEDULER = {"NotifiedAsks", "PendingApplication"}
#: Methods of collections and functions that change what they are called on, or get first.
CHANGING = {
    "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "sort", "update",
    "add_times", "add_to", "heappop", "heappush", "subtract_from",
}  # fmt: skip


@cache
def functions() -> list[tuple[str, str, ast.FunctionDef]]:
    """The functions of the core: the file, the class or "", the function; without those that make objects from rows."""
    found = []
    for path in sorted(CORE.rglob("*.py")):
        tree, file = ast.parse(path.read_text()), path.relative_to(CORE).as_posix()
        for owner in (tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))):
            name = owner.name if isinstance(owner, ast.ClassDef) else ""
            found += [(file, name, node) for node in owner.body if isinstance(node, ast.FunctionDef)]
    is_restoring = lambda file, function: file.startswith("records/") or function.name.startswith(("__init__", "restore"))  # noqa: E731
    return [(file, name, function) for file, name, function in found if not is_restoring(file, function)]


@cache
def kept_of(owner: str) -> frozenset[str]:
    """The attributes of a class that are in rows, and for which no ``KeptRows`` cares."""
    text = next(text for text in (path.read_text() for path in CORE.rglob("*.py")) if re.search(rf"\nclass {owner}\b", text))
    of_class = next(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef) and node.name == owner)
    made = [node for node in ast.walk(of_class) if isinstance(node, ast.AnnAssign) and "KeptRows" in ast.unparse(node.annotation)]
    noting = {node.target.attr for node in made if isinstance(node.target, ast.Attribute)}
    return frozenset(KEPT[owner][0].split()) - noting - PARTS


def pairs_of(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target of an assignment with its value."""
    if isinstance(target, ast.Tuple):
        values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
        for each, of_it in zip(target.elts, values, strict=True):
            yield from pairs_of(each, of_it)
    else:
        yield target, value


def targets(function: ast.FunctionDef, names: dict[str, ast.expr]) -> Iterator[ast.expr]:
    """The expressions that a function changes; fills in ``names``: what the local names stand for."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target, value in (pair for each in node.targets for pair in pairs_of(each, node.value)):
                if isinstance(target, ast.Name):
                    names[target.id] = value
                else:
                    yield target
        elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value is not None:
            yield node.target
        elif isinstance(node, ast.Delete):
            yield from node.targets
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            yield node.func.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CHANGING:
            yield from node.args[:1]


def writes(function: ast.FunctionDef) -> set[tuple[str, str]]:
    """The attributes that a function changes, or items of them, also by a local name: of what, and which."""
    names = dict[str, ast.expr]()
    found = set()
    for target in list(targets(function, names)):
        changes: ast.expr = target
        while isinstance(changes, ast.Subscript | ast.Starred):
            changes = changes.value
        if isinstance(changes, ast.Name):  # a collection that has a local name
            changes = names.get(changes.id, changes)
        if isinstance(changes, ast.Attribute):
            found.add((ast.unparse(changes.value), changes.attr))
    return found


def notes(function: ast.FunctionDef) -> bool:
    """True if a function notes a row."""
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return any(isinstance(call, ast.Attribute) and (call.attr == "_note" or is_changed(call.value)) for call in calls)


def is_changed(expression: ast.expr) -> bool:
    """True for ``self._changed``, ``self.books.changed`` and the like."""
    return isinstance(expression, ast.Attribute) and expression.attr in ("_changed", "changed")


def changed_by_owners() -> Iterator[tuple[str, ast.FunctionDef]]:
    """The methods that change what is in rows of their own object."""
    of_class = {owner: kept_of(owner) for owner in OWNERS} | {"_Queue": kept_of("ParentCore")}
    for file, name, function in functions():
        kept = of_class.get(name, frozenset())
        if any(thing == "self" and attribute in kept for thing, attribute in writes(function)):
            yield f"{file}: {name}.{function.name}", function


def test_whoever_changes_what_is_in_a_row_notes_it() -> None:
    """DU-4: each method of an owner that changes something kept notes the row in the same method."""
    found = dict(changed_by_owners())
    assert len(found) > 30
    assert [where for where, function in found.items() if not notes(function)] == []


def test_nobody_else_changes_what_is_in_a_row() -> None:
    """DU-4: code outside an object assigns to none of its attributes that are kept, nor changes one of its collections."""
    of_owners = {attribute for owner in OWNERS if owner not in OF_SCHEDULER for attribute in kept_of(owner)}
    of_scheduler = {attribute for owner in OF_SCHEDULER for attribute in kept_of(owner)}
    found = []
    for file, name, function in functions():
        kept = of_scheduler if file.split("/")[0] in SCHEDULER else of_owners
        others = [(thing, attribute) for thing, attribute in writes(function) if thing != "self" and attribute in kept]
        found += [f"{file}: {name}.{function.name}: {thing}.{attribute}" for thing, attribute in others if thing != "reload"]
    assert found == []


def test_whoever_changes_a_value_in_a_row_notes_the_row() -> None:
    """DU-4: the past of an application and the account of its day cannot note anything; who changes them does."""
    changing: dict[str, set[str]] = {owner: set() for owner in VALUES}
    for _, name, function in functions():
        if name in VALUES and any(thing == "self" and attribute in KEPT[name][0] for thing, attribute in writes(function)):
            changing[name].add(function.name)
    assert {"enter", "record", "reach"} <= changing["Past"]
    found = []
    for file, name, function in functions():
        if file == "partition/timers.py":  # of applications that have ended: ``KeptRows`` has them
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Attribute):
                owners = [owner for owner, attributes in VALUES.items() if node.func.value.attr in attributes]
                if any(node.func.attr in changing[owner] for owner in owners) and not notes(function):
                    found.append(f"{file}: {name}.{function.name}: {ast.unparse(node.func)}")
    assert found == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(self): self.asks[key] = ask", {("self", "asks")}),
        ("def f(self): asks = self.asks; asks.pop(key)", {("self", "asks")}),
        ("def f(self): before, self.hold = self.hold, hold", {("self", "hold")}),
        ("def f(application): del application.tasks.allocations[key]", {("application.tasks", "allocations")}),
        ("def f(application): application.gang.is_over |= True", {("application.gang", "is_over")}),
        ("def f(gang): add_to(gang.allocated_ever, resource)", {("gang", "allocated_ever")}),
        ("def f(gang): group = gang.groups[name]; return group.count", set()),
    ],
)
def test_a_change_is_found_in_whatever_form(text: str, found: set[tuple[str, str]]) -> None:
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    assert writes(function) == found
    assert not notes(function)
