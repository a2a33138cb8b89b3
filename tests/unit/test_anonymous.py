"""The parts that an anonymised recording keeps of tags, attributes, resource types and texts (DU-26)."""

from msgspec import Raw, structs
from world import answer, app, ask, load, node, queue, release, tree

from ykactor.core.config.model import PlacementRule
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.submissions import AddApplication, ApplyConfig, Submission, UpdateNode
from ykactor.core.turn.turn import Input
from ykactor.core.values.ids import ApplicationID, NodeID, PartitionName, QueuePath
from ykactor.sim.anonymous import NOWHERE, Names, anonymised, pinned
from ykactor.wire.scenario.recording import Rows, Turn, TurnLine, line_of, turn_of

DEFAULT = PartitionName("default")


def tagged(submission: Submission, tags: dict[str, str]) -> Submission:
    assert isinstance(submission, Ask)
    return structs.replace(submission, tags=tags)


def renamed(*submissions: Submission) -> tuple[list[Submission], Names]:
    line, names = line_of(0, Turn(DEFAULT, Input(list(submissions)))), Names()
    (found,) = anonymised(lambda: [line], names)
    assert isinstance(found, TurnLine)
    cause = turn_of(found).cause
    assert isinstance(cause, Input)
    return cause.submissions, names


def test_ranks_keep_the_order_of_names() -> None:
    """Ranks are as long as each other, so they sort as the names do, whoever has them."""
    keys = ["task-9", "task-10", "Task", "\u00e9t\u00e9", "a"]
    found, names = renamed(*(ask(key, "zebra", vcore=1) for key in keys))
    codes = [each.allocation_key for each in found]  # type: ignore[union-attr]
    assert sorted(keys) == [keys[codes.index(code)] for code in sorted(codes)]
    assert names.codes["zebra"] == found[0].application_id  # type: ignore[union-attr]
    assert all(not name.startswith("task") for name in names.codes.values())


def test_what_selectors_compare_stays_comparable() -> None:
    """An attribute that no selector names is left out; a value that none compares is another than all of them."""
    attributes = {"zone": "north", "rack": "r17", "disk": "fast"}
    wanted = tagged(ask("t1", "app-1", vcore=1), {"ykactor.io/node-selector": "zone in (north,south), disk"})
    (one, other), names = renamed(UpdateNode(NodeID("n1"), node("n1").action, {"vcore": 1}, attributes), wanted)  # type: ignore[union-attr]
    codes = names.codes
    assert one.attributes == {codes["zone"]: codes["north"], codes["disk"]: "-"}  # type: ignore[union-attr]
    zone, disk = codes["zone"], codes["disk"]
    assert other.tags == {"ykactor.io/node-selector": f"{zone} in ({codes['north']},{codes['south']}),{disk}"}  # type: ignore[union-attr]
    assert "r17" not in codes


def test_tags_on_which_decisions_depend() -> None:
    """Others are left out, as are values that mean nothing."""
    tags = {
        "creationTime": "1700000000",
        "ykactor.io/predicate": "class-of-alice",
        "kubernetes.io/meta/requiredNode": "node-7",
        "kubernetes.io/label/owner": "alice",
        "ykactor.io/node-selector": "zone==",
    }
    (found, wrong), names = renamed(
        tagged(ask("t1", "app-1", vcore=1), tags), tagged(ask("t2", "app-1"), {"creationTime": "soon"})
    )
    assert found.tags == {  # type: ignore[union-attr]
        "creationTime": "1700000000",
        "ykactor.io/predicate": names.codes["class-of-alice"],
        "kubernetes.io/meta/requiredNode": names.codes["node-7"],
        "ykactor.io/node-selector": f"{names.codes['zone']}=",
    }
    assert wrong.tags == {}  # type: ignore[union-attr]
    quota = '{"resources":{"gpu":{"value":2},"vcore":{"value":3}}}'
    tags = {"namespace.resourcequota": quota, "namespace": "team", "application.stateaware.disable": "true"}
    (added, _), names = renamed(AddApplication(ApplicationID("app-1"), "root.a", "alice", tags=tags), ask("t1", "app-1", gpu=1))
    assert added.tags == {  # type: ignore[union-attr]
        "namespace.resourcequota": '{"resources":{"a1":{"value":2},"vcore":{"value":3}}}',
        "application.stateaware.disable": "true",
    }
    assert "team" not in names.codes


def test_resource_types_keep_their_order() -> None:
    """Names with a meaning of their own stay, and others stay before, between or behind them."""
    types = ["gpu", "memory", "fpga", "pods", "vcore", "zinc"]
    (found,), names = renamed(UpdateNode(NodeID("n1"), node("n1").action, dict.fromkeys(types, 1)))  # type: ignore[union-attr]
    assert names.types == {"fpga": "a1", "gpu": "a2", "pods": "n3", "zinc": "w4"}
    assert sorted(found.capacity) == ["a1", "a2", "memory", "n3", "vcore", "w4"]  # type: ignore[union-attr]


def test_configurations() -> None:
    """Placement is pinned, and properties without a meaning are left out."""
    text = tree(queue("team", p={"application.sort.policy": "fair", "owner": "alice"}), placementrules=[])
    config = load(text)
    config = type(config)(config.name, config.root, placement_rules=(PlacementRule("tag", value="project"),))
    (found,), names = renamed(ApplyConfig(config))
    assert isinstance(found, ApplyConfig)
    assert [rule.name for rule in found.config.placement_rules] == ["provided"]
    (leaf,) = found.config.root.children
    assert leaf.path == f"root.{names.codes['team']}"
    assert leaf.property_map == {"application.sort.policy": "fair"}
    assert not {"project", "owner", "alice"} & names.codes.keys()


def test_applications_name_the_queue_in_which_they_were_placed() -> None:
    """One that was refused names none that could be; a forced one none."""
    placed = {ApplicationID("a"): QueuePath("root.team.x"), ApplicationID("b"): QueuePath("root.@recovery@")}
    found = pinned([app(name, "root.other") for name in "abc"] + [release("t", "a")], placed)
    assert [each.queue_name for each in found[:3]] == ["root.team.x", "", NOWHERE]  # type: ignore[union-attr]
    assert found[3] == release("t", "a")


def test_texts_and_the_past_are_left_out() -> None:
    """A refusal stays one; rows of ended applications are not needed."""
    (said,), names = renamed(*answer("class", "n1", no="the disk of alice is full"))
    assert said.error == "-"  # type: ignore[union-attr]
    assert "alice" not in "".join(names.codes)
    rows = [
        (Raw(b'["default","user","alice"]'), Raw(b'{"groups":["staff"],"until_ns":1}')),
        (
            Raw(b'["default","ended","app-1-5"]'),
            Raw(b'{"application_id":"app-1","queue":"root.a","state":"Completed","finished_ns":5}'),
        ),
    ]
    (line,) = anonymised(lambda: [Rows(0, DEFAULT, True, rows)], Names())
    assert isinstance(line, Rows)
    assert [(bytes(key), bytes(row)) for key, row in line.rows] == [
        (b'["default","user","a1"]', b'{"groups":["t2"],"until_ns":1}')
    ]
