"""Tests do not depend on the speed of the machine, which other programs slow: times are compared with others of the same run."""

import ast
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("*.py"))
#: What reads a real clock, or a count of CPU time; and the clock of trio, where a test does not replace it.
CLOCKS = {"thread_time", "process_time", "perf_counter", "monotonic", "cpu_s"}
OF_TRIO = {"current_time"}
#: Parameters of tests that are a clock that waits for nothing.
VIRTUAL = {"autojump_clock", "mock_clock"}
#: The shortest time after which a test gives up waiting.
PATIENCE_S = 60

Function = ast.FunctionDef | ast.AsyncFunctionDef
#: Expressions that may be a time, unlike a text or a comparison.
_TIMES = (ast.Name, ast.Call, ast.BinOp, ast.Tuple)


@cache
def text(path: Path) -> str:
    return path.read_text()


def has(path: Path, words: Collection[str]) -> bool:
    """True if a file has one of the words; others need not be parsed, which takes seconds for all."""
    return any(word in text(path) for word in words)


@cache
def syntax(path: Path) -> ast.Module:
    return ast.parse(text(path))


class Part(NamedTuple):
    """An outermost function of a file, the names that it calls, and whether it may run on a virtual clock."""

    function: Function
    calls: set[str]
    is_virtual: bool


@cache
def parts(path: Path) -> list[Part]:
    has_virtual = has(path, {*VIRTUAL, "MockClock"})
    bodies = [syntax(path).body, *(node.body for node in syntax(path).body if isinstance(node, ast.ClassDef))]
    found = []
    for function in (node for body in bodies for node in body if isinstance(node, Function)):
        is_virtual = any(argument.arg in VIRTUAL for argument in function.args.args)
        found.append(Part(function, called(function), is_virtual or (has_virtual and not function.name.startswith("test_"))))
    return found


def called(node: ast.AST) -> set[str]:
    calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
    named = [each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in calls]
    return set(named)


class Measured:
    """The measured times in a function: names and calls that have to do with a clock.

    Args:
        clocks: functions that return a measured time.
    """

    def __init__(self, function: Function, clocks: set[str]) -> None:
        self._clocks = clocks
        self._names = set[str]()
        before = -1
        while before < len(self._names):
            before = len(self._names)
            for node in ast.walk(function):
                self._look(node)

    def __contains__(self, node: ast.AST) -> bool:
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        return bool(called(node) & self._clocks or names & self._names)

    def _look(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value) if value in self:
                self._names |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
            case ast.AugAssign(target=ast.Name(id=name), value=value) if value in self:
                self._names.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value]) if value in self:
                self._names.add(name)


@cache
def measuring() -> frozenset[str]:
    """The functions of tests that return a CPU time, beside the clocks."""
    found, before = set(CLOCKS), set[str]()
    while found != before:
        before = set(found)
        for function, calls, _ in (part for path in FILES if has(path, before) for part in parts(path)):
            if calls & found and function.name not in found:
                measured = Measured(function, found)
                returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
                if any(isinstance(value, _TIMES) and value in measured for value in returned):
                    found.add(function.name)
    return frozenset(found)


def limits_of_times(path: Path) -> list[str]:
    """The assertions that a measured time is shorter than something that is not measured."""
    found: list[str] = []
    if not has(path, measuring() | OF_TRIO):
        return found
    for function, calls, is_virtual in parts(path):
        clocks = measuring() | (set() if is_virtual else OF_TRIO)
        if not calls & clocks:
            continue
        measured = Measured(function, clocks)
        for statement in ast.walk(function):
            if not isinstance(statement, ast.Assert):
                continue
            for node in ast.walk(statement.test):
                if isinstance(node, ast.Compare):
                    sides = [node.left, *node.comparators]
                    for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
                        if isinstance(operator, ast.Gt | ast.GtE):
                            left, right = right, left
                        elif not isinstance(operator, ast.Lt | ast.LtE):
                            continue
                        if left in measured and right not in measured:
                            found.append(f"{path.name}:{statement.lineno}: {ast.unparse(node)}")
    return found


def short_waits(path: Path) -> list[str]:
    """The places where a test fails when something has not happened within less than ``PATIENCE_S``."""
    if not has(path, {"fail_after"}):
        return []
    constants = {
        target.id: node.value.value
        for node in syntax(path).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = []
    for function, calls, is_virtual in parts(path):
        if is_virtual or "fail_after" not in calls:
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "fail_after":
                given = node.args[0] if node.args else node
                seconds = given.value if isinstance(given, ast.Constant) else constants.get(getattr(given, "id", ""), PATIENCE_S)
                if seconds < PATIENCE_S:
                    found.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    return found


@pytest.mark.parametrize("wrong", [limits_of_times, short_waits])
def test_no_test_depends_on_the_speed_of_the_machine(wrong) -> None:
    """Any time on a virtual clock may be asserted; a measured one only as longer than a constant, or beside another one."""
    assert [place for path in FILES if path != Path(__file__) for place in wrong(path)] == []


WRONG = """
import time
def spent_s(work):
    began = time.thread_time()
    work()
    return time.thread_time() - began
def test_one():
    began = time.perf_counter()
    assert time.perf_counter() - began < 5
def test_two():
    times = []
    times.append(spent_s(work))
    assert 3 > min(times)
async def test_three():
    with trio.fail_after(5):
        pass
def test_right():
    assert spent_s(many) < 10 * spent_s(few)
async def test_virtual(autojump_clock):
    with trio.fail_after(5):
        assert trio.current_time() < 5
"""


def test_what_depends_on_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directly, through a list, and through a function that measures."""
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    monkeypatch.setattr(f"{__name__}.FILES", [path])
    measuring.cache_clear()
    assert [place.split(":")[1] for place in limits_of_times(path)] == ["9", "13"]
    assert [place.split(":")[1] for place in short_waits(path)] == ["15"]
    measuring.cache_clear()
