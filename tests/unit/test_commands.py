"""Commands bind their replies: what an owner returns is what the type of the command promises."""

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import pytest
from msgspec import Struct
from world import (
    app,
    ask,
    cancel,
    configure,
    foreign,
    hold,
    make_world,
    move,
    node,
    prioritise,
    queue,
    release,
    terminate,
    tree,
)

from ykactor.core.accounting.books import Books
from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.kinds import NodeAction
from ykactor.core.messages.submissions import RemovePartition, UpdateNode
from ykactor.core.objects.commands import Adopt, Command, Decommission, NodeCommand, QueueCommand, TakeOver
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.queues import LeafCore, ParentCore
from ykactor.core.objects.registry import Core
from ykactor.core.values.ids import NodeID, QueuePath
from ykactor.sim import direct


def promised(command: type) -> Any:
    """The type of the reply, from ``class X(QueueCommand[reply])``."""
    (base,) = command.__orig_bases__  # type: ignore[attr-defined]
    (reply,) = get_args(base)
    return NoneType if reply is None else reply


def fits(value: object, kind: Any) -> bool:
    """True if a value is of a type, down to the elements of lists and tuples."""
    if kind == Fact:
        return isinstance(value, Fact)
    if get_origin(kind) is list:
        return isinstance(value, list) and all(fits(element, *get_args(kind)) for element in value)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(map(fits, value, get_args(kind)))
    if get_origin(kind) is UnionType:
        return any(fits(value, option) for option in get_args(kind))
    return isinstance(value, kind)


def test_every_reply_is_what_its_command_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    """One world that uses every command there is; each reply is compared with the type argument of its command."""
    seen: set[type] = set()

    def replies(sends: Sequence[tuple[Core, Command[Any]]]) -> list[Any]:
        found = []
        for owner, command in sends:
            reply = owner.handle(command)
            assert fits(reply, promised(type(command))), command
            seen.add(type(command))
            found.append(reply)
        return found

    monkeypatch.setattr(direct, "_replies", replies)
    create = [{"name": "provided", "create": True}]
    world = make_world(tree(queue("a"), queue("b"), placementrules=create), [node("n1", vcore=10), node("n2", vcore=10)])
    world.send(
        app("app-1"), ask("t1", "app-1", vcore=1), app("app-2"), ask("t2", "app-2", vcore=1), app("app-3", "root.p.dynamic")
    )
    relabel = UpdateNode(NodeID("n1"), NodeAction.UPDATE, attributes={"zone": "b"})
    world.send(node("n2", "DRAIN_NODE"), node("n1", "UPDATE", vcore=20), relabel, foreign("f1", "n1", vcore=1), release("f1", ""))
    assert world.administer(move("app-1", "root.b")) == ""
    world.send(ask("t3", "app-3", vcore=99))
    for request in (hold("root.b"), hold("app-1"), prioritise("app-3", 1), cancel("app-3", "t3"), terminate("app-2")):
        assert world.administer(request) == ""
    world.send(release("t1"), at=1)
    world.wait(until=400)
    world.send(app("app-4"), ask("t4", "app-4", vcore=1), at=401)
    world.send(node("n1", "DECOMISSION"), app("app-5"), configure(tree(queue("a"), placementrules=create)))
    world.wait(until=500)
    world.send(RemovePartition())
    assert seen == {*QueueCommand.__subclasses__(), *NodeCommand.__subclasses__()}


class Unknown(Struct):
    """Not a command."""


PATH = QueuePath("root.a")


@pytest.mark.parametrize(
    ("owner", "command"),
    [
        (LeafCore(QueueConfig(PATH, is_parent=False), Books()), Adopt((PATH,))),
        (ParentCore(QueueConfig(PATH, is_parent=True), Changed()), TakeOver(None)),  # type: ignore[arg-type]
        (NodeCore(NodeID("n1"), {}, True, {}, Changed()), Unknown()),
        (LeafCore(QueueConfig(PATH, is_parent=False), Books()), Decommission()),
    ],
)
def test_an_owner_refuses_what_is_not_for_it(owner: Core, command: object) -> None:
    """A command for another kind of owner is our mistake, and is not silently ignored."""
    with pytest.raises(TypeError, match="is not for a"):
        owner.handle(command)
