"""The page at ``/`` without a browser: its files, the headers that bind it, and what ``/ws/v1/session`` tells it."""

import re
import socket
from pathlib import Path

import pagetypes
import pytest
from callers import SECRETS, control_of
from msgspec import structs
from restdaemon import rest_daemon
from starlette.requests import Request

from ykactor.core.inspection.application_status import ApplicationStatus, PendingStatus, RecordStatus
from ykactor.core.inspection.node_status import NodeStatus
from ykactor.core.inspection.queue_status import QueueStatus
from ykactor.surfaces.http.page import DIRECTORY, MEDIA_TYPES
from ykactor.surfaces.http.session import Websockets
from ykactor.wire.si import messages as si

SOURCES = {path.name: path.read_text() for path in DIRECTORY.iterdir() if path.suffix in MEDIA_TYPES}
SCRIPTS = {name: text for name, text in SOURCES.items() if name.endswith(".js")}
#: Scripts that draw anything: there a node is one of the document.
DRAW = {"dom.js", "grid.js"}
#: What puts a text in as markup, or runs it.
FORBIDDEN = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|javascript:")


async def test_the_page_may_do_nothing_else() -> None:
    """SE-97: scripts, styles and pictures of its origin, and the websocket of the host that it was opened with; no frame."""
    async with rest_daemon() as rest:
        for host in ("127.0.0.1", "localhost", "[::1]"):
            answer = await rest.ask("/", Host=f"{host}:{rest.port}")
            session = (await rest.ask("/ws/v1/session", Host=f"{host}:{rest.port}")).content
            assert re.fullmatch(rf"ws://{re.escape(host)}:\d+", session["websockets"])
            assert answer.status == 200
            assert answer.headers["x-content-type-options"] == "nosniff"
            policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
            assert policy == {
                "default-src": "'none'",
                "script-src": "'self'",
                "style-src": "'self'",
                "img-src": "'self'",
                "connect-src": f"'self' {session['websockets'].replace('[::1]', '*')}",
                "base-uri": "'none'",
                "form-action": "'none'",
                "frame-ancestors": "'none'",
            }


@pytest.mark.parametrize("host", ["a b", "x;script-src *", "user@host", "a" * 300])
async def test_a_host_is_no_part_of_the_policy_unless_it_is_one(host: str) -> None:
    """SE-97: what is no name and no address gets a page that connects to its own origin only."""
    async with rest_daemon() as rest:
        answer = await rest.ask("/", Host=host)
        assert "connect-src 'self'; " in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("urls", "expected"),
    [
        (["unix:/run/a.sock"], ""),
        (["unix:/run/a.sock", "wss://[::1]:9081", "ws://0.0.0.0:1"], "wss://h.example:9081"),
        ([], ""),
    ],
)
def test_the_first_door_that_a_browser_can_reach(urls: list[str], expected: str) -> None:
    """SE-97: a TCP address, with the name that the page has."""
    request = Request({"type": "http", "headers": [(b"host", b"H.example:9080")]})
    assert Websockets(urls).url(request) == expected


async def test_every_file_is_served_as_what_it_is() -> None:
    """Files have their type and their tag, for which there is 304; licences, directories and other files are not served."""
    async with rest_daemon() as rest:
        for path in DIRECTORY.rglob("*"):
            name = path.relative_to(DIRECTORY).as_posix()
            answer = await rest.ask("/" if name == "index.html" else f"/ui/{name}")
            if path.suffix not in MEDIA_TYPES:
                assert answer.status == 404, name
                continue
            assert (answer.status, answer.headers["content-type"]) == (200, MEDIA_TYPES[path.suffix])
            assert answer.body == path.read_bytes()
            again = await rest.ask("/" if name == "index.html" else f"/ui/{name}", if_none_match=answer.headers["etag"])
            assert (again.status, again.body) == (304, b"")
        for path in ("/ui/../app.py", "/ui/%2e%2e/app.py", "/ui/index.html"):
            assert (await rest.ask(path)).status == 404
        assert (await rest.ask("/ui/")).body == (await rest.ask("/ui")).body == (await rest.ask("/")).body


async def test_the_page_gives_way_to_another_ui(tmp_path: Path) -> None:
    """``--web-root`` is served at the root instead, and the page at ``/ui/``: there people log in for both (SE-98)."""
    (tmp_path / "index.html").write_text("another")
    async with rest_daemon(web_root=tmp_path) as rest:
        assert (await rest.ask("/")).body == b"another"
        assert (await rest.ask("/ui/")).body == (DIRECTORY / "index.html").read_bytes()
        assert (await rest.ask("/ui/main.js")).status == 200


async def test_who_asks() -> None:
    """SE-97: the identity with its roles; nobody learns where the websockets are, without a proof where one is needed."""
    async with rest_daemon(admit=control_of().admit) as rest:
        assert (await rest.ask("/")).status == 200
        assert (await rest.ask("/ws/v1/session")).status == 401
        shown = (await rest.ask("/ws/v1/session", Authorization=f"Bearer {SECRETS['reader']}")).content
        assert (shown["name"], shown["roles"]) == ("reader", ["reader"])
    async with rest_daemon() as rest:
        shown = (await rest.ask("/ws/v1/session", Host=socket.gethostname())).content
        assert (shown["name"], shown["roles"]) == ("anybody", ["metrics", "operator", "reader", "replica", "rm"])
        assert (await rest.ask("/ws/v1/session", Host="evil.example")).status == 403


# ---- its sources


def test_texts_are_never_markup() -> None:
    """SE-97: no script makes markup of a text; no script and no style is inside the document; nothing is from elsewhere."""
    assert not re.search(r"<style|<script(?![^>]* src=)|\son\w+=|\sstyle=", SOURCES["index.html"])
    for name, text in SOURCES.items():
        assert not FORBIDDEN.search(text), name
        assert set(re.findall(r"https?://[^\s\"']+", text)) <= {"http://www.w3.org/2000/svg"}, name


def imported_by(text: str) -> list[str]:
    """The scripts that one imports; comments import types, for which nothing is run."""
    return re.findall(r'^import .* from "\./(.*)";$', text, re.MULTILINE)


def test_a_script_has_one_idea() -> None:
    """A script has at most 400 lines, of at most 130 characters; it says what it is for, and imports what there is."""
    for name, text in SCRIPTS.items():
        lines = text.splitlines()
        assert len(lines) <= 400, name
        assert max(map(len, lines)) <= 130, name
        assert lines[0].startswith("// "), name
        assert set(imported_by(text)) <= set(SCRIPTS), name
        assert re.findall(r'from "(?!\./)', text) == [], name


def test_scripts_import_one_way() -> None:
    """Imports of scripts form no cycle."""
    edges = {name: set(imported_by(text)) for name, text in SCRIPTS.items()}

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join([*way, name])
        for other in edges[name]:
            visit(other, (*way, name))

    visit("main.js", ())
    assert {name for name in edges if name != "main.js"} == set().union(*edges.values())


#: The names that say the same in all scripts, also where no comment gives their type.
EVERYWHERE = {"queue", "application", "group", "record", "node"}
#: What the daemon sends, by the names of its types, and the fields of each.
SENT = {kind.__name__: {field.encode_name for field in structs.fields(kind)} for kind in pagetypes.sent()}
#: ``@param {Partial<T>} name``, ``/** @type {T} */ name`` and ``name: T`` in the comments of scripts.
TYPE = r"(?:Partial<)?\b(\w+)\b>?"
TYPED = re.compile(rf"@param \{{{TYPE}\}} (\w+)|@type \{{{TYPE}\}} \*/ (\w+)|\b(\w+): {TYPE}(?!\[)")


def typed(text: str) -> set[tuple[str, str]]:
    """The names to which the comments of a script give a type of what is sent: (name, type); each message has its own type."""
    aliases = {alias: kind for kind, alias in re.findall(r"@typedef \{(?:Partial<)?(\w+)>?\} (\w+)", text)}
    comments = "\n".join(re.findall(r"/\*\*.*?\*/ ?\w*", text, re.DOTALL))
    found = [(first[1] or first[3] or first[4], first[0] or first[2] or first[5]) for first in TYPED.findall(comments)]
    return {(name, aliases.get(kind, kind)) for name, kind in found if name != "message" and aliases.get(kind, kind) in SENT}


def test_the_types_of_the_page_are_those_of_the_structs() -> None:
    """The page declares what the daemon sends a follower as the client has it; a struct that is changed is written again."""
    assert pagetypes.PATH.read_text() == pagetypes.declarations(), "run: PYTHONPATH=tests .venv/bin/python tests/pagetypes.py"
    assert {QueueStatus, ApplicationStatus, PendingStatus, RecordStatus, NodeStatus, si.EventRecord} <= {*pagetypes.sent()}


def test_scripts_name_types_that_there_are() -> None:
    """Each type that a comment imports is declared, and one name has one type in all scripts, as ``queue`` of ``QueueStatus``."""
    for name, text in SCRIPTS.items():
        for imported, module in re.findall(r"@import \{ (.*) \} from \"\./(.*)\"", text):
            exported = [*SENT, "FeedMessage"] if module == "messages" else re.findall(r"export class (\w+)", SCRIPTS[module])
            assert set(imported.split(", ")) <= set(exported), name
    kinds = {pair for text in SCRIPTS.values() for pair in typed(text)}
    names = [name for name, _ in kinds]
    assert sorted(names) == sorted(set(names))
    assert {*EVERYWHERE, "event"} <= set(names)


def test_scripts_read_what_is_sent() -> None:
    """A field that is renamed or taken out of a struct is read by no script any more."""
    kinds = {name: kind for text in SCRIPTS.values() for name, kind in typed(text) if name in EVERYWHERE}
    for script, text in SCRIPTS.items():
        for name, kind in (kinds | dict(typed(text))).items() if script not in DRAW else ():
            read = set(re.findall(rf"(?<![.\w]){name}\??\.(\w+)", text))
            assert read <= SENT[kind], (script, name)


def test_events_make_what_snapshots_have() -> None:
    """The page's objects for something new, before the next snapshot, have fields of the same structs."""
    made = re.findall(r"const empty = {(.*)};", SCRIPTS["changes.js"])
    for kind, text in zip((NodeStatus, ApplicationStatus, QueueStatus), made, strict=True):
        assert set(re.findall(r"(\w+):", text)) <= {field.encode_name for field in structs.fields(kind)}


#: What is written on what, in the colours of the style sheet.
WRITTEN = [(ink, ground) for ink in ("ink", "soft", "accent", "over", "full", "well") for ground in ("ground", "paper", "raised")]
WRITTEN += [("paper", "accent"), *((f"on-use-{level}", f"use-{level}") for level in range(6))]


def luminance(colour: str) -> float:
    """The relative luminance of a colour such as ``#1f5fd6``."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_texts_have_contrast() -> None:
    """Each text has a contrast of 4.5 to its ground, in light and dark (WCAG AA)."""
    schemes = [
        dict(re.findall(r"--([\w-]+): (#\w{6});", block))
        for block in re.findall(r":root {(.*?)}", SOURCES["colours.css"], re.DOTALL)
    ]
    assert len(schemes) == 2
    for scheme in schemes:
        for ink, ground in WRITTEN:
            darker, lighter = sorted((luminance(scheme[ink]), luminance(scheme[ground])))
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (ink, ground)
