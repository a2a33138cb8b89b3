"""Queue files for tests: small texts, and what is found in them."""

from pathlib import Path

import pytest

from ykactor.core.config.model import PartitionConfig, QueueConfig
from ykactor.wire.queuefile.load import ConfigError, Mistake, load

#: The queue files in config/.
SAMPLES = [path for path in sorted((Path(__file__).parents[1] / "config").glob("*.yaml")) if "\npartitions:" in path.read_text()]

#: Stands before the queues of one partition: these start in line 4 with six spaces.
HEAD = "partitions:\n  - name: default\n    queues:\n"
#: Stands before the other keys of a partition: these start in line 4 with four spaces.
PARTITION = "partitions:\n  - name: default\n    queues: []\n"
#: Stands before the children of a root that is written: these start in line 6 with ten spaces.
ROOT = HEAD + "      - name: root\n        queues:\n"

#: Paths of the queues in these texts.
A = "partitions[0].queues[0](root.a)"
R = "partitions[0].queues[0](root)"
RA = "partitions[0].queues[0].queues[0](root.a)"
RB = "partitions[0].queues[0].queues[1](root.b)"


def queue_with(fields: str) -> str:
    """A configuration whose only leaf ``root.a`` has ``fields`` (flow style)."""
    return HEAD + f"      - {{name: a, {fields}}}\n"


def mistakes_of(text: str) -> list[Mistake]:
    with pytest.raises(ConfigError) as caught:
        load(text, "q.yaml")
    return caught.value.mistakes


def codes_of(text: str) -> list[str]:
    return [mistake.code for mistake in mistakes_of(text)]


def assert_mistake(text: str, code: str, path: str, *parts: str) -> None:
    """Assert that ``text`` has exactly one mistake, where the mark § stands, whose message has these ``parts``."""
    before, mark, after = text.partition("§")
    assert mark, "the text says where the mistake is"
    found = mistakes_of(before + after)
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    assert [(m.code, m.line, m.column, m.path) for m in found] == [(code, line, column, path)]
    for part in parts:
        assert part in found[0].message


def partition_of(text: str) -> PartitionConfig:
    """The first partition."""
    return load(text).partitions[0]


def queues_of(text: str) -> dict[str, QueueConfig]:
    """The queues of the first partition by path."""
    return by_path(partition_of(text).root)


def by_path(queue: QueueConfig) -> dict[str, QueueConfig]:
    found: dict[str, QueueConfig] = {queue.path: queue}
    for child in queue.children:
        found |= by_path(child)
    return found
