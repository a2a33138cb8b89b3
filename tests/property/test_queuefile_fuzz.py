from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ykactor.wire import yamltext
from ykactor.wire.queuefile import DEFAULT_TEXT, ConfigError, load

CONFIG = Path(__file__).parents[2] / "config"

#: Without comments, so that mutations hit something.
SAMPLES = [DEFAULT_TEXT] + [
    "".join(line for line in path.read_text().splitlines(keepends=True) if line.strip() and not line.lstrip().startswith("#"))
    for path in sorted(CONFIG.glob("*.yaml"))
]

#: Pieces that mean something in YAML or in the schema.
PIECES = st.sampled_from([
    "\n - ", ": ", "{", "}", "[", "]", ",", "&a ", "*a", "*", "!!int ", "!x ", "'", '"', "\t", "#", "---\n", "...\n", "? ",
    "<<: ", ">", "|", "\\", "%YAML 1.1\n", "null", "~", ".nan", "-1", "1e999", "\x00", "\x85", "\u2028", "\ufeff", "😀", "\ud800",
    '"\\U00110000"', '"\\x"', "name: root", "queues:\n", "resources: {max: {vcore: 1}}", "limits: []", "parent: ",
    "maxapplications: 99999999999999999999", "properties: {priority.offset: x}", "submitacl: a b c", "@recovery@",
])  # fmt: skip


def check(text: str) -> None:
    """Either a configuration or mistakes with a place, one line each."""
    try:
        assert load(text, "q.yaml").partitions
    except ConfigError as error:
        mistakes, lines = error.mistakes, str(error).split("\n")
    else:
        return
    assert len(mistakes) == len(lines) > 0
    assert all(mistake.line >= 1 and mistake.column >= 1 and mistake.code for mistake in mistakes)


@pytest.fixture(params=[yaml.CSafeLoader, yaml.SafeLoader], autouse=True, scope="module")
def loader(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test runs with libyaml and with the parser in Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yamltext, "LOADER", request.param)
        yield


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | st.lists(PIECES, max_size=12).map("".join))
def test_any_text(text: str) -> None:
    """No text makes ``load`` raise anything but ``ConfigError``."""
    check(text)


@settings(max_examples=300, deadline=None)
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
