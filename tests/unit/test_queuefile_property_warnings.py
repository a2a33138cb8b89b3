import pytest
from queuetexts import HEAD, by_path, queues_of
from world import app, ask, make_world, node, queue, tree

from ykactor.core.config.model import QueueConfig, SchedulerConfig
from ykactor.core.config.properties import PROPERTIES, QueueProperties
from ykactor.wire.queuefile.load import load


def chain(*own: str) -> list[QueueConfig]:
    """Queues root.q, root.q.q, ... with these properties (flow style)."""
    text = "".join(f"{{name: q, properties: {{{properties}}}, queues: [" for properties in own) + "]}" * len(own)
    return list(queues_of(f"partitions: [{{queues: [{text}]}}]").values())[1:]


@pytest.mark.parametrize(
    ("key", "value", "inherited"),
    [
        ("priority.policy", "fence", "default"),
        ("priority.offset", "7", "0"),
        ("preemption.policy", "fence", "default"),
        ("preemption.policy", "disabled", "disabled"),
        ("application.sort.policy", "fair", "fair"),
        ("application.sort.priority", "disabled", "disabled"),
        ("preemption.delay", "5s", "5s"),
        ("something.else", "kept", "kept"),
    ],
)
def test_inheritance(key: str, value: str, inherited: str) -> None:
    """CF-35: what a child gets of its parent's property, and that its own value wins."""
    parent, child, grandchild = chain(f"{key}: {value}", "", f"{key}: own")
    assert parent.property_map == {key: value}
    assert child.property_map == {key: inherited}
    assert grandchild.property_map == {key: "own"}


def test_every_setting_is_read_from_one_property() -> None:
    """CF-72: a setting without a property could not be changed."""
    assert sorted(known.field for known in PROPERTIES.values()) == sorted(QueueProperties.__struct_fields__)


def test_meaning_of_properties() -> None:
    """CF-32, CF-33, CF-36, CF-72: values in any case; the nearest application.sort.priority wins; the rest is the default."""
    top, middle, bottom = chain(
        "priority.policy: FENCE, priority.offset: -5, application.sort.policy: StateAware, application.sort.priority: Disabled",
        "priority.policy: ''",
        "application.sort.priority: ENABLED, application.sort.policy: fair",
    )
    assert top.properties == QueueProperties("stateaware", sort_by_priority=False, priority_fence=True, priority_offset=-5)
    assert middle.properties == QueueProperties("stateaware", sort_by_priority=False)
    assert bottom.properties == QueueProperties("fair")


def test_parents_sort_by_share() -> None:
    """The sort policy of a parent does not order its child queues: the smaller share comes first (CF-34)."""
    world = make_world(tree(queue("a"), queue("b"), p={"application.sort.policy": "fifo"}), [node("n1", vcore=4)])
    world.given(app("app-1", "root.a"), app("app-2", "root.b"))
    world.send(
        *(ask(f"a{number}", "app-1", vcore=1) for number in "12"), *(ask(f"b{number}", "app-2", vcore=1) for number in "12")
    )
    assert world.placed() == ["a1", "b1", "a2", "b2"]


def test_properties_do_not_depend_on_their_order() -> None:
    """CF-38: the order of the map does not matter."""
    (one,), (two,) = chain("priority.offset: 3, priority.policy: fence"), chain("priority.policy: fence, priority.offset: 3")
    assert one.properties == two.properties


def warnings_of(properties: str) -> SchedulerConfig:
    return load(HEAD + f"      - name: a\n        properties: {{{properties}}}\n        queues: [{{name: b}}]\n", "q.yaml")


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("application.sort.policy", "lifo", "found 'lifo', expected fifo or fair or stateaware; fifo is used"),
        ("application.sort.priority", "on", "found 'on', expected enabled or disabled; enabled is used"),
        ("priority.policy", "wall", "found 'wall', expected default or fence; default is used"),
        ("priority.offset", "1.5", "found '1.5', expected a whole number from -2147483648 to 2147483647; 0 is used"),
        ("priority.offset", "2147483648",
         "found '2147483648', expected a whole number from -2147483648 to 2147483647; 0 is used"),
        ("preemption.policy", "off", "found 'off', expected default or fence or disabled; default is used"),
        ("preemption.delay", "5 s", "found '5 s', expected a duration above 0 such as 30s or 1m30s; 30s is used"),
        ("quota.preemption.delay", "-1s", "found '-1s', expected a duration above 0 such as 30s or 1m30s; never is used"),
        ("application.unschedasks.backoff", "-1", "found '-1', expected a whole number of asks; 0 (never) is used"),
        ("application.unschedasks.backoff.delay", "0",
         "found '0', expected a duration above 0 such as 30s or 1m30s; 30s is used"),
    ],
)  # fmt: skip
def test_bad_property_values_are_warnings(key: str, value: str, text: str) -> None:
    """CF-72, CF-73: a bad value is the default and one warning, at the queue that sets it and not where it is inherited."""
    config = warnings_of(f"{key}: {value}")
    path = f"partitions[0].queues[0](root.a).properties.{key}"
    assert config.warnings == (f"q.yaml:5:{24 + len(key)}: {path}: {text}",)
    assert by_path(config.partitions[0].root)["root.a"].properties == QueueProperties()


@pytest.mark.parametrize("offset", ["1000000000", "-1000000000", "2147483647", "-2147483648"])
def test_large_offsets_are_warnings(offset: str) -> None:
    """PR-15: an offset that can clamp, or lift ordinary work above system work, holds and is pointed out."""
    config = warnings_of(f"priority.offset: {offset}")
    assert len(config.warnings) == 1
    assert f"the offset {offset} is so large" in config.warnings[0]
    assert by_path(config.partitions[0].root)["root.a"].properties.priority_offset == int(offset)


def test_stateaware_is_a_warning() -> None:
    """CF-33: at the queue or template that sets it, because YuniKorn does something else now."""
    text = HEAD + "      - {name: a, parent: true, childtemplate: {properties: {application.sort.policy: StateAware}}}\n"
    (warning,) = load(text, "q.yaml").warnings
    assert warning.startswith("q.yaml:4:87: partitions[0].queues[0](root.a).childtemplate.properties.application.sort.policy: ")
    (warning,) = warnings_of("application.sort.policy: stateaware").warnings
    assert warning.endswith(
        "YuniKorn 1.6 and later treat stateaware as fifo; here one application starts at a time, "
        "so others may wait up to 300 s while it is Starting"
    )


@pytest.mark.parametrize("properties", ["priority.offset: 999999999", "priority.offset: ", "my.own: x", "priority.policy: ''"])
def test_ordinary_properties_are_no_warnings(properties: str) -> None:
    """CF-72: unknown keys are kept silently, empty values are the default, ordinary offsets are fine."""
    assert warnings_of(properties).warnings == ()


def test_priority_on_root_gives_no_message() -> None:
    """PR-13: offset and policy on root have no effect and give no message."""
    text = HEAD + "      - {name: root, properties: {priority.offset: 2000000000, priority.policy: fence}}\n"
    assert load(text).warnings == ()
