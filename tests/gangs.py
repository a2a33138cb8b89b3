"""Words of tests about gangs: a gang in ``root.g``, its placeholders, and the real tasks that take their places."""

from typing import Any

from world import World, app, ask, make_world, node, queue, tree

TIMEOUT = "TIMEOUT (releasing allocated placeholders on placeholder timeout)"
GIVEN_UP = "TIMEOUT (releasing pending placeholders on placeholder timeout)"
CANCELLED = "TIMEOUT (cancel placeholder: resource incompatible)"


def holder(key: str, name: str = "gang", *, group: str = "g", vcore: int = 1, on: str | None = None) -> Any:
    """A placeholder."""
    return ask(key, name, group=group, placeholder=True, vcore=vcore, on=on)


def real(key: str, name: str = "gang", *, group: str = "g", vcore: int = 1) -> Any:
    """A real ask of a task group."""
    return ask(key, name, group=group, vcore=vcore)


def room(vcore: int = 10, *, confirms: bool = True, **leaf: Any) -> World:
    return make_world(tree(queue("g", **leaf)), [node("n1", vcore=vcore)], confirms=confirms)


def gang(total: int = 3, *, style: str = "", timeout_s: float = 0) -> Any:
    return app("gang", "root.g", placeholders={"vcore": total}, style=style, timeout_ms=int(timeout_s * 1000))


def three() -> list[Any]:
    return [holder("p1"), holder("p2"), holder("p3")]
