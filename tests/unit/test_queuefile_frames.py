"""Encoding configurations and refusals in frames, and decoding them one frame at a time."""

from pathlib import Path

import msgspec
import pytest
from generate import generate
from hypothesis import given, settings
from hypothesis import strategies as st
from partitiontexts import several
from queuetexts import SAMPLES, by_path
from seeds import scaled
from world import limit, queue, template, tree

from ykactor.core.config.model import (
    AccessList,
    ChildTemplate,
    Limit,
    NameFilter,
    NodeSortPolicy,
    PartitionConfig,
    PlacementFilter,
    PlacementRule,
    PreemptionSettings,
    QueueConfig,
    QueueProperties,
    SchedulerConfig,
)
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.parts import finished
from ykactor.wire import queuefile
from ykactor.wire.queuefile.frames import FRAME_QUEUES, decoding, encode
from ykactor.wire.queuefile.text import ConfigError, Mistake


def carried(config: SchedulerConfig) -> tuple[SchedulerConfig, int]:
    """The decoded configuration, and the number of pauses."""
    work, steps = decoding(encode(config), config.text), 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, steps
        steps += 1


def frames(config: SchedulerConfig) -> list[bytes]:
    """The frames of a configuration."""
    return msgspec.msgpack.decode(encode(config), type=list[bytes])


# ---- anything that the structs can hold

_names = st.text("abc*-", min_size=1, max_size=4)
_resources = st.none() | st.dictionaries(_names, st.integers(-(2**63), 2**63 - 1), max_size=2)
_access = st.builds(AccessList, st.booleans(), st.frozensets(_names, max_size=2), st.frozensets(_names, max_size=2))
_name_tuples = st.lists(_names, max_size=2).map(tuple)
_limits = st.lists(st.builds(Limit, _name_tuples, _name_tuples, _resources, st.integers(0, 2**64 - 1)), max_size=2).map(tuple)
_maps = st.dictionaries(_names, st.text(max_size=4), max_size=2)
_templates = st.none() | st.builds(ChildTemplate, st.integers(0, 9), _maps, _resources, _resources)
_properties = st.builds(QueueProperties, _names, st.booleans(), st.booleans(), st.integers(-(2**31), 2**31 - 1))


def _queue(children: st.SearchStrategy[tuple[QueueConfig, ...]]) -> st.SearchStrategy[QueueConfig]:
    return st.builds(
        QueueConfig,
        _names.map(QueuePath),
        st.booleans(),
        _properties,
        _maps,
        _resources,
        _resources,
        st.integers(0, 2**64 - 1),
        _access,
        _access,
        _limits,
        _templates,
        children,
        st.booleans(),
    )


_trees = st.recursive(_queue(st.just(())), lambda inner: _queue(st.lists(inner, max_size=3).map(tuple)), max_leaves=6)
_filters = st.builds(
    PlacementFilter, st.booleans(), *[st.builds(NameFilter, st.booleans(), st.frozensets(_names, max_size=2), _names)] * 2
)
_rules = st.recursive(
    st.builds(PlacementRule, _names, st.booleans(), _names, _filters),
    lambda inner: st.builds(PlacementRule, _names, st.booleans(), _names, _filters, inner),
    max_leaves=2,
)
_partitions = st.builds(
    PartitionConfig,
    _names,
    _trees,
    st.builds(NodeSortPolicy, _names, st.dictionaries(_names, st.floats(0, 9), max_size=2)),
    st.lists(_rules, max_size=2).map(tuple),
    st.builds(PreemptionSettings, st.booleans(), st.booleans()),
    _names,
)
_configs = st.builds(
    SchedulerConfig,
    st.lists(_partitions, min_size=1, max_size=3).map(tuple),
    st.text(max_size=8),
    st.text(max_size=8),
    _name_tuples,
)


@settings(max_examples=scaled(120))
@given(_configs)
def test_any_configuration_arrives(config: SchedulerConfig) -> None:
    """The decoded configuration is equal in every field, for trees of any depth and several partitions."""
    assert carried(config)[0] == config


@settings(max_examples=scaled(40))
@given(st.integers(0, 2**32), st.integers(1, 300))
def test_generated_texts_arrive(seed: int, queues: int) -> None:
    """The decoded configuration is that of ``load``, with a pause before each frame of queues."""
    config = queuefile.load(generate(seed, queues=queues, asks=1).config)
    arrived, pauses = carried(config)
    assert arrived == config
    count = sum(len(by_path(partition.root)) for partition in config.partitions)
    assert pauses == -(-count // FRAME_QUEUES)


@pytest.mark.parametrize("count", [FRAME_QUEUES - 2, FRAME_QUEUES - 1, FRAME_QUEUES, 2 * FRAME_QUEUES - 1, 3 * FRAME_QUEUES])
def test_a_frame_may_end_anywhere(count: int) -> None:
    """A frame may end between a parent and its children, or between two partitions."""
    many = [queue(f"q{number}") for number in range(count)]
    text = several(first=many, second=[queue("p", *many), queue("q")], third=[queue("a")])
    config = queuefile.load(text)
    assert carried(config)[0] == config


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples_arrive(path: Path) -> None:
    """The samples in config/ survive encoding."""
    config = queuefile.load(path.read_text())
    assert carried(config)[0] == config


def test_everything_that_a_text_can_say() -> None:
    """Rules with parents and filters, limits, templates, access lists, node weights and warnings survive encoding."""
    rule = {"name": "tag", "value": "namespace", "create": True, "parent": {"name": "user", "create": True}}
    rule["filter"] = {"type": "deny", "users": ["alice", "bob"], "groups": ["dev.*"]}
    config = queuefile.load(
        tree(
            queue("a", limits=[limit("alice", groups=("dev",), vcore=1)], submitacl="alice dev", adminacl="* "),
            queue("p", parent=True, childtemplate=template(applications=3, p={"priority.offset": 1}, max={"vcore": 5})),
            placementrules=[rule, {"name": "provided"}],
            nodesortpolicy={"type": "binpacking", "resourceweights": {"vcore": 2.5}},
            usergroupresolver={"type": "os"},
            preemption={"enabled": False},
            p={"priority.offset": "x"},
        )
    )
    assert config.warnings
    assert carried(config)[0] == config


_mistakes = st.lists(
    st.builds(Mistake, _names, st.integers(1, 10**6), st.integers(1, 10**6), _names, st.text(max_size=9), _names), max_size=9
)


@given(_mistakes, _name_tuples)
def test_refusals_arrive(mistakes: list[Mistake], warnings: tuple[str, ...]) -> None:
    """A refusal has every mistake with its place, and every warning."""
    sent = ConfigError(mistakes, warnings)
    with pytest.raises(ConfigError) as caught:
        finished(decoding(encode(sent), "text"))
    assert (caught.value.mistakes, caught.value.warnings, str(caught.value)) == (mistakes, warnings, str(sent))


@pytest.mark.parametrize("cut", [0, 3, 4, 10, -1])
def test_frames_that_end_too_early(cut: int) -> None:
    """Incomplete or other data raise ValueError."""
    sent = encode(queuefile.load(tree(queue("a"), queue("b"))))
    with pytest.raises(ValueError, match="frames"):
        finished(decoding(sent[:cut], "text"))


def test_a_frame_is_missing() -> None:
    """Frames with too few or too many queues raise ValueError."""
    config = queuefile.load(several(first=[queue("a")], second=[queue(f"q{n}") for n in range(FRAME_QUEUES)]))
    head = frames(config)[0]
    fewer = frames(msgspec.structs.replace(config, partitions=config.partitions[:1]))[1:]
    for sent in [head], [head, *fewer]:
        with pytest.raises(ValueError, match="zip"):
            finished(decoding(msgspec.msgpack.encode(sent), "text"))
