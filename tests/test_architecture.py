"""The property on which consistency rests: who may import whom, and who may ask for the time."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "ykactor"
SOURCES = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}

#: What each folder of the package may import of the others. Files beside the folders are surfaces, but for the version.
MAY_IMPORT = {
    "core": {"core"},
    "wire": {"core", "wire"},
    "actors": {"core", "actors"},
    "sim": {"core", "wire", "actors", "sim"},
    "rules": set(),
    "surfaces": {"core", "wire", "actors", "sim", "rules", "surfaces", "client"},
    "client": {"core", "wire", "actors", "sim", "surfaces", "client"},
    "settings": {"core"},
    "__main__": {"surfaces"},
    "__init__": set(),
}
#: Whoever imports one of these at all reads a clock, or could make a run differ from the one before.
CLOCKS = {"time"}
CHANCE = {"random", "secrets", "uuid"}


def layer(source: str) -> str:
    """``core`` for ``core/ledger.py``, ``client`` for ``client.py``."""
    return source.split("/")[0].removesuffix(".py")


def imports(source: str) -> Iterator[str]:
    """The dotted names that a file imports, those within functions too; a relative one would start with a dot."""
    for node in ast.walk(SOURCES[source]):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            stem = "." * node.level + (node.module or "")
            yield from (f"{stem}.{name.name}" for name in node.names)


def own(source: str) -> set[str]:
    """The layers of the package that a file imports; the version at its top is everybody's."""
    names = {name.split(".")[1] for name in imports(source) if name.startswith("ykactor.")}
    return names - {"__version__"}


def outside(source: str) -> set[str]:
    """The top level modules that a file imports from elsewhere."""
    return {name.split(".")[0] for name in imports(source)} - {"ykactor", "__future__"}


def in_layers(*names: str) -> list[str]:
    return [source for source in SOURCES if layer(source) in names]


def test_there_is_something_to_read() -> None:
    """The lists below are not empty by accident."""
    assert {layer(source) for source in SOURCES} <= set(MAY_IMPORT)
    assert len(in_layers("core")) > 10


@pytest.mark.parametrize("source", SOURCES)
def test_imports_point_one_way(source: str) -> None:
    """core <- wire, actors (not each other) <- sim <- surfaces and the client."""
    assert not any(name.startswith(".") for name in imports(source)), "absolute imports only, so that this test sees them"
    assert own(source) <= MAY_IMPORT[layer(source)]


@pytest.mark.parametrize(("package", "other"), [("si", "queuefile"), ("queuefile", "si")])
def test_the_interface_and_the_queue_file_are_independent(package: str, other: str) -> None:
    """``wire/si`` and ``wire/queuefile`` do not import each other."""
    sources = [source for source in SOURCES if source.startswith(f"wire/{package}/")]
    assert sources
    assert not [name for source in sources for name in imports(source) if name.startswith(f"ykactor.wire.{other}")]


@pytest.mark.parametrize("source", in_layers("core"))
def test_core_needs_only_the_standard_library_and_msgspec(source: str) -> None:
    """What is decided does not depend on how the program runs."""
    assert outside(source) <= set(sys.stdlib_module_names) | {"msgspec"}


@pytest.mark.parametrize("source", in_layers("core", "wire"))
def test_core_and_wire_never_wait(source: str) -> None:
    """No ``async def``, no ``await``, no trio: nothing can change under a decision."""
    waiting = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
    assert not any(isinstance(node, waiting) for node in ast.walk(SOURCES[source]))
    assert not outside(source) & {"trio", "trio_websocket", "asyncio", "threading"}


@pytest.mark.parametrize("source", in_layers("core", "wire"))
def test_core_and_wire_know_neither_time_nor_chance(source: str) -> None:
    """The same input gives the same decisions (SC-6): no clock, no randomness, no ``datetime`` that could be asked for now."""
    assert not outside(source) & (CLOCKS | CHANCE | {"datetime"})


@pytest.mark.parametrize("source", in_layers("actors"))
def test_actors_ask_one_file_for_the_time(source: str) -> None:
    """``actors/clock.py`` alone may look at the system's clock; pauses are measured by trio's, as timeouts are."""
    if source != "actors/clock.py":
        assert not outside(source) & (CLOCKS | CHANCE | {"datetime"})


@pytest.mark.parametrize("source", SOURCES)
def test_nobody_asks_for_the_time_while_being_imported(source: str) -> None:
    """A call at module level would be made once, at import, and be wrong ever after."""
    for statement in SOURCES[source].body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        calls = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
        modules = {ast.unparse(call).split(".")[0] for call in calls}
        assert not modules & (CLOCKS | CHANCE | {"datetime"})
