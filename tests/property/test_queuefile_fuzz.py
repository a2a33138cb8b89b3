import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from queuetexts import SAMPLES as FILES
from queuetexts import by_path
from seeds import scaled, seeds

from ykactor.core.config.model import PartitionConfig, PlacementRule
from ykactor.wire.queuefile import text as yamltext
from ykactor.wire.queuefile.load import DEFAULT_TEXT, ConfigError, load
from ykactor.wire.queuefile.manifests import config_map
from ykactor.wire.queuefile.schema import json_schema

#: Without comments, so that mutations hit something.
SAMPLES = [DEFAULT_TEXT] + [
    "".join(line for line in path.read_text().splitlines(keepends=True) if line.strip() and not line.lstrip().startswith("#"))
    for path in FILES
]

SAMPLES += [config_map(SAMPLES[0], "a", "b"), json.dumps({"kind": "ConfigMap", "data": {"queues.yaml": SAMPLES[0]}})]

#: Pieces that mean something in YAML or in the schema.
PIECES = st.sampled_from([
    "\n - ", ": ", "{", "}", "[", "]", ",", "&a ", "*a", "*", "!!int ", "!x ", "'", '"', "\t", "#", "---\n", "...\n", "? ",
    "<<: ", ">", "|", "\\", "%YAML 1.1\n", "null", "~", ".nan", "-1", "1e999", "\x00", "\x85", "\u2028", "\ufeff", "😀", "\ud800",
    '"\\U00110000"', '"\\x"', "name: root", "queues:\n", "resources: {max: {vcore: 1}}", "limits: []", "parent: ",
    "maxapplications: 99999999999999999999", "properties: {priority.offset: x}", "submitacl: a b c", "@recovery@",
    "limits: [{users: ['*'], maxapplications: 1}]", "filter: {users: ['(']}", "childtemplate: {maxapplications: 1}",
])  # fmt: skip


def check(text: str) -> bool:
    """Either a configuration that the core can use, or mistakes with a place, one line each. Returns whether it was accepted."""
    try:
        config = load(text, "q.yaml")
    except ConfigError as error:
        mistakes, lines = error.mistakes, str(error).split("\n")
    else:
        assert config.partitions
        for partition in config.partitions:
            survive(partition)
        return True
    assert len(mistakes) == len(lines) > 0
    assert all(mistake.line >= 1 and mistake.column >= 1 and mistake.code for mistake in mistakes)
    return False


def survive(partition: PartitionConfig) -> None:
    """Check what the core relies on without looking: unique paths in lower case, parents above them, rules that can run."""
    queues = by_path(partition.root)
    for path, queue in queues.items():
        assert path == path.lower()
        assert (queue.is_parent, path) == (True, "root") or queues[path.rpartition(".")[0]].is_parent
        assert len({child.path for child in queue.children}) == len(queue.children)
        assert all(limit.users or limit.groups for limit in queue.limits)
        assert all(limit.max_resources or limit.max_applications for limit in queue.limits)
    for first in partition.placement_rules:
        rule: PlacementRule | None = first
        while rule is not None:
            assert rule.name in ("provided", "user") or (rule.name in ("fixed", "tag") and rule.value)
            re.compile(rule.filter.users.expression + rule.filter.groups.expression)
            rule = rule.parent


@pytest.fixture(params=[yaml.CSafeLoader, yaml.SafeLoader], autouse=True, scope="module")
def loader(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test runs with libyaml and with the parser in Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yamltext, "LOADER", request.param)
        yield


@settings(max_examples=scaled(200))
@given(st.text(max_size=60) | st.lists(PIECES, max_size=12).map("".join))
def test_any_text(text: str) -> None:
    """The function ``load`` raises nothing but ``ConfigError``, whatever the text is."""
    check(text)


@settings(max_examples=scaled(150))
@given(
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), PIECES | st.text(max_size=3)), min_size=1, max_size=3),
)
def test_mutated_samples(text: str, mutations: list[tuple[float, int, str]]) -> None:
    """Nor does a right file of which some characters are replaced."""
    for place, length, piece in mutations:
        start = int(place * len(text))
        text = text[:start] + piece + text[start + length :]
    check(text)


# ---- trees of keys

SCHEMA = json_schema()

#: Values that are often right for a key of this name; entries of ``users`` and ``groups`` are names.
WORDS = {
    "name": ["a", "b", "Root", "root", "user", "fixed", "tag", "provided", ""],
    "users": ["bob", "eve", "'*'", "'^b'", "'(?=b)'", "9"],
    "groups": ["dev", "ops", "'*'", "'d*'", "''"],
    "value": ["a", "root.a", "root.a.b", "root", "b.a", "a..b", ""],
    "type": ["fair", "deny", "os", "ldap", "''"],
    "submitacl": ["'*'", "bob", "' dev'", "a b c", "'b, c'"],
    "quantities": ["1", "2", "0", "500m", "1Ki", "9223372036854775807", "-1", "''"],
}
ANYTHING = ["x", "5", "'5'", "true", "null", "[]", "{}", "[x]", "{x: y}", "1.5", "'*'"]


class Grower:
    """Grows files along the schema, some of them wrong."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        #: Of all values that are replaced by anything.
        self.wrong = self.random.choice((0, 0, 0.02, 0.2))

    def grow(self, schema: dict[str, Any], key: str, depth: int) -> str:
        if self.random.random() < self.wrong:
            return self.random.choice(ANYTHING)
        if "anyOf" in schema:
            schema = schema["anyOf"][0]
        if "$ref" in schema:
            return self.mapping(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], depth)
        kind = schema["type"][0] if isinstance(schema["type"], list) else schema["type"]
        if kind == "array":
            count = self.random.choice((1, 1, 2, 3)) if depth < 9 else 0
            return "[" + ", ".join(self.grow(schema["items"], key, depth + 1) for _ in range(count)) + "]"
        if kind == "object":
            entries = self.random.sample(["vcore", "memory", "gpu", "priority.offset"], k=self.random.randint(0, 2))
            return "{" + ", ".join(f"{entry}: {self.random.choice(WORDS['quantities'])}" for entry in entries) + "}"
        if kind in ("integer", "number"):
            return self.random.choice(("0", "1", "2", "2", "5"))
        return self.random.choice(("true", "false")) if kind == "boolean" else self.random.choice(WORDS.get(key, ["x", "' '"]))

    def mapping(self, schema: dict[str, Any], depth: int) -> str:
        required = schema["required"]
        share = 0.9 if depth < 2 else 0.4
        keys = [key for key in schema["properties"] if key in required or self.random.random() < share]
        grown = (f"{key}: {self.grow(schema['properties'][key], key, depth + 1)}" for key in keys)
        return "{" + ", ".join(grown) + "}"


@settings(max_examples=scaled(250))
@given(st.integers(0, 2**32))
def test_trees_of_keys(seed: int) -> None:
    """Nor does any file of known keys with values that are right, nearly right or of the wrong kind."""
    grower = Grower(seed)
    check(grower.mapping(SCHEMA["$defs"]["FileText"], 0))


def test_some_trees_are_accepted() -> None:
    """The files above are worth something: some are right as a whole, and many break one rule."""
    texts = [Grower(seed).mapping(SCHEMA["$defs"]["FileText"], 0) for seed in seeds(1000)]
    assert sum(map(check, texts)) >= 3
