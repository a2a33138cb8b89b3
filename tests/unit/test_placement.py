"""Which leaf an application goes to: the rule ``provided`` and the last resort ``root.default``."""

import pytest
from world import app, configure, queue, tree, world

from ykactor.core.placement import NO_MATCH, qualified

TEXT = tree(queue("a", queue("b")), queue("user_dot_name"), queue("default"))
NO_DEFAULT = tree(queue("a", queue("b")), queue("user_dot_name"))
REFUSED = f"app-1 Rejected: failed to place application app-1: {NO_MATCH}"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("root.a.b", "root.a.b"),
        ("root.A.B", "root.a.b"),
        ("a", "root.a"),
        ("user.name", "root.user_dot_name"),
        ("Root.a", "root.root_dot_a"),
        ("root", "root.root"),
        ("rootless.q", "root.rootless_dot_q"),
    ],
)
def test_qualified(name: str, path: str) -> None:
    """Below root; dots are part of an unqualified name; only lower case ``root.`` qualifies (PL-25, PL-27 to PL-29, PL-35)."""
    assert qualified(name) == path


@pytest.mark.parametrize(
    ("name", "queue_name"),
    [
        ("root.a.b", "root.a.b"),
        ("ROOT.a.b", "root.default"),  # unqualified: root.root_dot_a_dot_b does not exist
        ("root.A.b", "root.a.b"),
        ("user.name", "root.user_dot_name"),
        ("root.a", "root.default"),  # a parent
        ("nowhere", "root.default"),
        ("", "root.default"),
        ("root.default", "root.default"),
    ],
)
def test_placed(name: str, queue_name: str) -> None:
    """The named leaf, else ``root.default`` (PL-2, PL-38, PL-42); the application has the path of the real queue (PL-29)."""
    it = world(TEXT)
    it.given(app("app-1", name))
    assert it.final()["applications"]["app-1"] == {"state": "New", "queueName": queue_name}


@pytest.mark.parametrize("name", ["", "root", "root.a", "root.nowhere", "b", "root.default", "root.a.b.c"])
def test_no_leaf(name: str) -> None:
    """Nothing usable: refused with the text of PL-40; the default leaf is never created (PL-42)."""
    it = world(NO_DEFAULT)
    it.send(app("app-1", name))
    it.expect(REFUSED)


@pytest.mark.parametrize(
    "left", [tree(queue("c")), tree(queue("a", queue("c"))), tree(queue("a"))], ids=["both drain", "it drains", "no child left"]
)
def test_draining_leaves_are_not_usable(left: str) -> None:
    """A leaf that drains, or is below a queue that does, takes nobody new (PL-38, section 10 of CF)."""
    it = world(NO_DEFAULT)
    it.given(app("app-0", "root.a.b"), configure(left))
    it.send(app("app-1", "root.a.b"))
    it.expect(REFUSED)


def test_draining_default() -> None:
    """The last resort drains too."""
    it = world(TEXT)
    it.given(app("app-0", "root.default"), configure(NO_DEFAULT))
    it.send(app("app-1", "nowhere"))
    it.expect(REFUSED)


@pytest.mark.parametrize("name", ["a b", "root..a", "root.a!", "x" * 65])
def test_illegal_names_are_errors(name: str) -> None:
    """An illegal name is an error of the rule: refused, nothing else is tried (PL-5, PL-27, PL-28)."""
    it = world(TEXT)
    it.send(app("app-1", name))
    (line,) = it.heard()
    assert line.startswith("app-1 Rejected: failed to place application app-1: application rejected: illegal queue name ")
