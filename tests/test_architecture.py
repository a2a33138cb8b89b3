"""Rules about imports, clocks and waiting: the properties on which consistency rests."""

import ast
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from additions import applying

PACKAGE = Path(__file__).resolve().parents[1] / "ykactor"
SOURCES = [path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py"))]

#: What each folder of the package may import of the others. Files beside the folders are surfaces, but for the version.
MAY_IMPORT = {
    "core": {"core"},
    "wire": {"core", "wire"},
    "actors": {"core", "actors", "journal"},
    "journal": {"journal"},
    "access": {"core", "wire", "access"},
    "sim": {"core", "wire", "actors", "sim"},
    "rules": set(),
    "handbook": set(),
    "client": {"wire", "client"},
    "local": {"core", "wire", "client", "local"},
    "kubernetes": {"wire", "client", "kubernetes"},
    "surfaces": {
        "core",
        "wire",
        "access",
        "actors",
        "journal",
        "sim",
        "rules",
        "handbook",
        "surfaces",
        "client",
        "local",
        "kubernetes",
    },
    "__main__": {"surfaces"},
    "__init__": set(),
}
#: The packages of ``core`` from the ground up; a package imports strictly lower floors only, never its neighbour.
FLOORS = (
    {"values"},
    {"config"},
    {"messages"},
    {"accounting"},
    {"objects", "quota"},
    {"placement", "queueing"},
    {"partition", "nodes"},
    {"preemption"},
    {"waiting"},
    {"state"},
    {"planner"},
    {"turn"},
    {"inspection", "records"},
)
FLOOR_OF = {package: floor for floor, packages in enumerate(FLOORS) for package in packages}
#: The packages of ``surfaces``, in the same way.
SURFACE_FLOORS = (
    {"log", "metrics"},
    {"files"},
    {"net", "copies"},
    {"admission"},
    {"sessions", "http"},
    {"daemon"},
    {"replica", "standby"},
    {"cli"},
)
SURFACE_FLOOR_OF = {package: floor for floor, packages in enumerate(SURFACE_FLOORS) for package in packages}
#: Packages that must not import each other at all, or in one direction only: (who, whom).
STRANGERS = [
    ("wire/si", "wire/queuefile"),
    ("wire/queuefile", "wire/si"),
]
#: Whoever imports one of these at all reads a clock, or could make a run differ from the one before.
CLOCKS = {"time"}
CHANCE = {"random", "secrets", "uuid"}
#: Folders whose docstrings begin with a noun or a verb, and the words with which clauses begin.
DOCUMENTED = (
    "core",
    "client",
    "wire",
    "local",
    "journal",
    "access",
    "sim",
    "kubernetes",
    "surfaces/cli",
    "surfaces/metrics",
    "bench",
)
#: The same of folders where functions may have more parameters.
DOCUMENTED_DOORS = ("actors", "surfaces")
#: The same of tests.
CLAUSES = re.compile(
    r"(Around|As|At|By|Everybody|Everything|For|From|How|If|In|Its?|No|Nobody|None|Of|On|Since|That|There|Those|To|Until|What|When|"
    r"Where|Whether|Which|Who|Whose|Why|With|Without)\b"
)
#: Functions whose options are given by name.
OPENERS = {
    ("client/follower.py", "follow"),
    ("client/operator.py", "explain"),
    ("client/operator.py", "read_usage"),
    ("client/resource_manager.py", "connect"),
    ("sim/direct.py", "__init__"),
    ("wire/rest/queues.py", "queue"),
}
#: By kind of what is added, as in ``additions``: how many files one example of it may touch.
FILES_TOUCHED = {
    "event": 4,
    "executor": 1,
    "metric": 1,
    "placement_rule": 1,
    "queue_property": 5,
    "si_message": 5,
    "sort_policy": 2,
    "verb": 5,
}
LINES_MAX = 600


def layer(source: str) -> str:
    """``core`` for ``core/quota/ledger.py``, ``__main__`` for ``__main__.py``."""
    return source.split("/")[0].removesuffix(".py")


@cache
def syntax(source: str) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse((PACKAGE / source).read_text())


@cache
def trees(folder: str) -> list[tuple[str, ast.Module]]:
    """The files of a folder of the package, or of one beside it, and what they say."""
    root = PACKAGE if (PACKAGE / folder).is_dir() else PACKAGE.parent
    return [(path.relative_to(root).as_posix(), ast.parse(path.read_text())) for path in sorted((root / folder).rglob("*.py"))]


@cache
def imports(source: str) -> list[str]:
    """The dotted names that a file imports, those in functions and under TYPE_CHECKING too; a relative one starts with a dot."""
    found: list[str] = []
    for node in ast.walk(syntax(source)):
        if isinstance(node, ast.Import):
            found += (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            stem = "." * node.level + (node.module or "")
            found += (f"{stem}.{name.name}" for name in node.names)
    return found


def files_imported(source: str) -> set[str]:
    """The files of the package that a file imports, as keys of ``SOURCES``."""
    found = set()
    for name in imports(source):
        parts = name.split(".")[1:] if name.startswith("ykactor.") else []
        for candidate in ("/".join(parts), "/".join(parts[:-1])):
            known = [path for path in (f"{candidate}.py", f"{candidate}/__init__.py") if path in SOURCES and candidate]
            if known:
                found.add(known[0])
                break
    return found - {source}


def layers_imported(source: str) -> set[str]:
    """The layers of the package that a file imports; the version at its top is everybody's."""
    names = {name.split(".")[1] for name in imports(source) if name.startswith("ykactor.")}
    return names - {"__version__"}


def outside(source: str) -> set[str]:
    """The top level modules that a file imports from elsewhere."""
    return {name.split(".")[0] for name in imports(source)} - {"ykactor", "__future__"}


def in_layers(*names: str) -> list[str]:
    return [source for source in SOURCES if layer(source) in names]


def core_package(source: str) -> str:
    """``quota`` for ``core/quota/ledger.py``; "" for what is in no package of ``core``."""
    parts = source.split("/")
    return parts[1] if parts[0] == "core" and len(parts) == 3 else ""


def surface_package(source: str) -> str:
    """``net`` for ``surfaces/net/doors.py`` and whatever is below that folder; "" for what is not of ``surfaces``."""
    parts = source.split("/")
    return parts[1] if parts[0] == "surfaces" and len(parts) > 2 else ""


def test_there_is_something_to_read() -> None:
    """The lists below are not empty by accident, and every package of core and of surfaces has its floor."""
    assert {layer(source) for source in SOURCES} <= set(MAY_IMPORT)
    assert {surface_package(source) for source in SOURCES} - {""} == set(SURFACE_FLOOR_OF)
    assert [source for source in in_layers("surfaces") if not surface_package(source)] == ["surfaces/__init__.py"]
    assert {core_package(source) for source in SOURCES} - {""} == set(FLOOR_OF)
    assert len(in_layers("core")) > 60
    assert "core/quota/ledger.py" in files_imported("core/queueing/tree.py")
    assert "wire/queuefile/__init__.py" in files_imported("sim/simulator.py")


def test_imports_point_one_way() -> None:
    """core <- wire, actors (not each other) <- sim <- client <- surfaces; core, wire <- access <- surfaces.

    Of the journal actors know the batch and its errors. Who may do what is asked at the edge, so actors do not know it.
    """
    for source in SOURCES:
        assert not any(name.startswith(".") for name in imports(source)), f"{source}: relative imports are not seen here"
        assert layers_imported(source) <= MAY_IMPORT[layer(source)], source


def test_the_adapter_for_kubernetes_can_be_left_out() -> None:
    """The adapter is an extra: only its command imports it, and it knows the protocol and the client only."""
    for source in SOURCES:
        imported = files_imported(source)
        if layer(source) == "kubernetes":
            assert all(name.startswith(("kubernetes/", "client/", "wire/si/")) for name in imported), source
        elif source != "surfaces/cli/kubernetes.py":
            assert not any(name.startswith("kubernetes/") for name in imported), source


def test_core_imports_lower_floors_only() -> None:
    """A package of core imports its own modules and packages on strictly lower floors."""
    for source in in_layers("core"):
        own = core_package(source)
        others = {core_package(path) for path in files_imported(source)} - {own, ""}
        assert all(FLOOR_OF[other] < FLOOR_OF[own] for other in others), f"{source} imports {others}"


def test_surfaces_import_lower_floors_only() -> None:
    """A package of surfaces imports its own modules and packages on strictly lower floors: the command line is the roof."""
    for source in in_layers("surfaces"):
        own = surface_package(source)
        others = {surface_package(path) for path in files_imported(source)} - {own, ""}
        assert all(SURFACE_FLOOR_OF[other] < SURFACE_FLOOR_OF[own] for other in others), f"{source} imports {others}"


def test_there_is_one_way_in() -> None:
    """One file accepts connections, one knows the HTTP/1.1 parser, one starts the event loop, and an error has one class."""
    surfaces = in_layers("surfaces")
    assert [source for source in surfaces if "serve_listeners" in (PACKAGE / source).read_text()] == [
        "surfaces/admission/listener.py"
    ]
    assert [source for source in surfaces if "httptools" in outside(source)] == ["surfaces/net/requests.py"]
    assert not [source for source in surfaces if outside(source) & {"h11", "trio_websocket"}]
    assert [source for source in surfaces if "trio.run(" in (PACKAGE / source).read_text()] == ["surfaces/cli/loop.py"]
    classes = [
        node.name
        for source in in_layers("surfaces", "wire", "access")
        for node in ast.walk(syntax(source))
        if isinstance(node, ast.ClassDef)
    ]
    assert [name for name, count in Counter(classes).items() if count > 1 and name.endswith("Error")] == []


@pytest.mark.parametrize(("who", "whom"), STRANGERS)
def test_strangers_do_not_import_each_other(who: str, whom: str) -> None:
    """The SI and the queue file know nothing of each other."""
    for source in (source for source in SOURCES if source.startswith(f"{who}/")):
        assert not [path for path in files_imported(source) if path.startswith(f"{whom}/")], source


def test_no_file_imports_itself_through_others() -> None:
    """The imports have no circle, TYPE_CHECKING and functions included; a package's face is not counted as a file."""
    edges = {source: {path for path in files_imported(source) if not path.endswith("__init__.py")} for source in SOURCES}
    done: set[str] = set()

    def visit(source: str, way: tuple[str, ...]) -> None:
        assert source not in way, " -> ".join([*way[way.index(source) :], source])
        if source not in done:
            for other in sorted(edges[source]):
                visit(other, (*way, source))
            done.add(source)

    for source in edges:
        visit(source, ())


def test_a_file_has_one_idea() -> None:
    """A file of more than 600 lines holds a second noun."""
    for source in SOURCES:
        lines = (PACKAGE / source).read_text().count("\n")
        assert lines <= LINES_MAX, source


@pytest.mark.parametrize("folder", [*DOCUMENTED, *DOCUMENTED_DOORS, "tests"])
def test_a_docstring_begins_with_what_a_thing_is_or_does(folder: str) -> None:
    """The first line begins with a noun or a verb, not with a clause; a predicate is "True if ..."."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [(source, node) for source, tree in trees(folder) for node in ast.walk(tree) if isinstance(node, documented)]
    firsts = [(source, (ast.get_docstring(node) or "").partition("\n")[0]) for source, node in nodes]
    assert len(firsts) > 5
    assert [first for first in firsts if CLAUSES.match(first[1])] == []


#: By the object, a field that everybody shows, and who else names it.
EXAMPLES = {
    "queue": ("priority_offset|priorityOffset", ()),
    # the page has a column of ages, and lists jobs, which are applications too, as a verb and the REST API do
    "application": (
        "submission_time|submissionTime",
        ("surfaces/page/cells.js", "surfaces/page/jobs.js", "surfaces/cli/jobs/tables.py", "wire/rest/jobs.py"),
    ),
    # an event tells it, which changes it on the page; an invariant; a simulation writes some fields at its end
    "node": (
        "occupied",
        (
            "wire/si/events.py",
            "surfaces/page/changes.js",
            "core/inspection/owner_invariants.py",
            "core/inspection/snapshot.py",
        ),
    ),
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_field_is_shown_by_four_files(kind: str) -> None:
    """One struct has it, with what a limited reader sees and what is measured; then the REST API, the verbs and the page name it.

    Snapshots, the JSON of the verbs, the verb about one object and the client take it from the struct.
    """
    names, others = EXAMPLES[kind]
    shows = ("access/", "client/", "core/inspection/", "wire/rest/", "wire/si/", "surfaces/")
    files = [path for ending in ("py", "js") for path in PACKAGE.rglob(f"*.{ending}")]
    named = [path for path in files if re.search(rf"\b({names})\b", path.read_text())]
    assert {name for path in named if (name := path.relative_to(PACKAGE).as_posix()).startswith(shows)} == {
        f"core/inspection/{kind}_status.py",
        f"surfaces/cli/views/{kind.replace('application', 'app')}s.py",
        "surfaces/page/facts.js",
        f"wire/rest/{kind}s.py",
        *others,
    }


#: The files of the read model, and those that show it.
READ_MODEL = ("core/inspection/", "access/view.py", "surfaces/cli/views/", "surfaces/http/readings/", "wire/rest/")


def test_the_read_model_is_typed() -> None:
    """The read model has structs, no ``dict[str, Any]``, except the rows of printed tables, which are JSON under one name."""
    sources = [source for source in SOURCES if source.startswith(READ_MODEL)]
    untyped = {source: count for source in sources if (count := (PACKAGE / source).read_text().count("dict[str, Any]"))}
    assert len(sources) > 40
    assert untyped == {"surfaces/cli/views/listing.py": 1}


def test_verbs_sum_up_nothing() -> None:
    """Sums of a status are made in ``core.inspection``, once."""
    views = [source for source in SOURCES if source.startswith("surfaces/cli/views/")]
    counting = {source for source in views if "Counter(" in (PACKAGE / source).read_text()}
    assert counting == {"surfaces/cli/views/nodes.py"}  # the tasks that no application has


@pytest.mark.parametrize("folder", DOCUMENTED)
def test_a_function_has_at_most_five_parameters(folder: str) -> None:
    """More are a struct; commands have one for each option, and the functions that open a session take options by name."""
    for source, tree in trees(folder):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (source, node.name) not in OPENERS:
                is_command = any("click" in ast.unparse(decorator) for decorator in node.decorator_list)
                every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                assert len({name.arg for name in every} - {"self", "cls"}) <= 5 or is_command, (source, node.name)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The mistakes of each example of an addition, when all are applied together."""
    return applying.outcomes([*FILES_TOUCHED], tmp_path_factory.mktemp("additions"))


@pytest.mark.parametrize(("kind", "most"), FILES_TOUCHED.items())
def test_an_addition_touches_few_files(kind: str, most: int, outcomes: dict[str, str]) -> None:
    """Files of the product, but for docs and what is generated; the example works when these are changed, and nothing else."""
    assert outcomes[kind] == "", outcomes[kind]
    assert len(applying.edits_of(kind)) <= most


@pytest.mark.parametrize("kind", FILES_TOUCHED)
def test_the_page_for_contributors_names_the_files_of_an_addition(kind: str) -> None:
    """A row of ``CONTRIBUTING.md`` has exactly the files that the example changes."""
    page = (PACKAGE.parent / ".github" / "CONTRIBUTING.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("|") and f"`{kind}.py`" in line]
    _, _, files, _, _ = row.split("|")
    assert re.findall(r"`([^`]+)`", files) == [*applying.edits_of(kind)]


def test_the_page_is_no_part_of_the_program() -> None:
    """``surfaces/page`` has what a browser runs, and nothing of Python; one file reads it; ``test_page_files`` has its rules."""
    assert not [source for source in SOURCES if source.startswith("surfaces/page/")]
    assert [source for source in SOURCES if '/ "page"' in (PACKAGE / source).read_text()] == ["surfaces/http/page.py"]
    assert (PACKAGE / "surfaces" / "page" / "index.html").exists()


def test_core_needs_only_the_standard_library_msgspec_and_re2() -> None:
    """Decisions depend neither on how the program runs nor on its environment; one file knows RE2."""
    for source in in_layers("core"):
        engine = {"re2"} if source == "core/values/expressions.py" else set()
        assert outside(source) <= set(sys.stdlib_module_names) | {"msgspec"} | engine, source
        assert not outside(source) & {"os", "sys", "pathlib", "io", "socket", "subprocess"}, source


def test_core_wire_journal_and_access_never_wait() -> None:
    """Files without ``async def``, ``await``, trio: nothing changes under a decision, and the journal may run in any thread."""
    waiting = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
    for source in in_layers("core", "wire", "journal", "access"):
        assert not any(isinstance(node, waiting) for node in ast.walk(syntax(source))), source
        assert not outside(source) & {"trio", "trio_websocket", "asyncio", "threading"}, source


def test_one_function_decides_where_long_work_pauses() -> None:
    """Work says how long its steps are; only a plan, which counts units of its own, pauses by itself."""
    pausing = {
        source
        for source in SOURCES
        for found in ast.walk(syntax(source))
        if isinstance(found, ast.Yield) and isinstance(found.value, ast.Tuple | ast.List) and not found.value.elts
    }
    assert pausing == {"core/values/parts.py", "core/planner/planner.py"}


def test_core_and_wire_know_neither_time_nor_chance() -> None:
    """The same input gives the same decisions (SC-6): no clock, no randomness, no ``datetime`` that could be asked for now."""
    for source in in_layers("core", "wire"):
        assert not outside(source) & (CLOCKS | CHANCE | {"datetime"}), source


def test_the_journal_is_told_the_time() -> None:
    """Ages follow from the time of the caller; chance only makes the names of instances."""
    for source in in_layers("journal"):
        assert not outside(source) & (CLOCKS | {"datetime"}), source


def test_access_is_told_the_time() -> None:
    """Expiry follows from the time of the caller; chance only makes tokens, and only their file is on the disk."""
    for source in in_layers("access"):
        assert not outside(source) & CLOCKS, source
        if source != "access/tokens.py":
            assert not outside(source) & (CHANCE | {"os", "pathlib", "socket"}), source


def test_what_a_session_asks_needs_no_cryptography() -> None:
    """A daemon without an access file does not load the libraries that verify proofs: they take 80 ms and 15 MiB."""
    seen, new = set(), {"access/permissions.py"}
    while new:
        seen |= new
        new = {path for source in new for path in files_imported(source)} - seen
    assert "access/model.py" in seen
    assert not [source for source in seen if outside(source) & {"jwt", "cryptography"}]


def test_actors_ask_one_file_for_the_time() -> None:
    """``actors/clock.py`` alone may look at the system's clock; pauses are measured by trio's, as timeouts are."""
    for source in in_layers("actors"):
        if source != "actors/clock.py":
            assert not outside(source) & (CLOCKS | CHANCE | {"datetime"}), source


def test_nobody_asks_for_the_time_while_being_imported() -> None:
    """A call at module level would be made once, at import, and be wrong ever after."""
    for source in SOURCES:
        for statement in syntax(source).body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            calls = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
            modules = {ast.unparse(call).split(".")[0] for call in calls}
            assert not modules & (CLOCKS | CHANCE | {"datetime"}), source


def test_no_two_test_modules_have_one_name() -> None:
    """All folders of tests are on the import path, so the second one could not be imported."""
    tests = Path(__file__).parent
    names = Counter(path.name for path in tests.rglob("*.py")) - Counter(["conftest.py", "__main__.py"] * 100)
    assert [name for name, count in names.items() if count > 1] == []


ESSAY = (PACKAGE / "README.md").read_text()


def test_the_walks_of_the_essay_name_what_is_there() -> None:
    """Three of at most ten files each; each file has the function or method that the walk names."""
    section = ESSAY.partition("## Three walks\n")[2].partition("\n## ")[0]
    walks = [re.findall(r"^\d+\. `(\S+)` `(\S+)`:", part, re.MULTILINE) for part in section.split("\n\n")]
    assert [len(walk) for walk in walks if walk] == [10, 10, 10]
    for source, name in [step for walk in walks for step in walk]:
        body = syntax(source).body
        for part in name.split("."):
            found = [node for node in body if getattr(node, "name", "") == part]
            assert found, (source, name)
            body = getattr(found[0], "body", [])


def test_a_file_that_the_essay_names_is_there() -> None:
    """Paths are below the project, the package or ``core``; in a text about one package they are below that."""
    folders = [path for path in PACKAGE.rglob("*/") if path.name != "__pycache__"]
    named = set(re.findall(r"`([\w/.-]+(?:\.(?:py|js|ts|md|toml|yaml)|/))`", ESSAY))
    assert len(named) > 150
    assert {path for path in named if not any((top / path).exists() for top in (PACKAGE.parent, PACKAGE, *folders))} == set()
