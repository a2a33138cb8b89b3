"""Queue files in manifests: what is recognised, which one counts, and where mistakes are reported."""

import base64
import gzip
import json
from textwrap import indent

import pytest
import yaml
from queuetexts import by_path

from ykactor.core.config.model import SchedulerConfig
from ykactor.wire.queuefile import manifests
from ykactor.wire.queuefile import text as yamltext
from ykactor.wire.queuefile.load import DEFAULT_TEXT, ConfigError, Mistake, checksum_of, load

TEXT = "partitions:\n  - queues:\n      - name: a\n"
OTHER = "partitions:\n  - queues:\n      - name: b\n"
#: Line 4, column 26.
WRONG = TEXT + "        maxapplications: x\n"
#: Stands before a value of queues.yaml, which begins in line 3.
DATA = "kind: ConfigMap\ndata:\n  queues.yaml: "
HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n"


def config_map(text: str, name: str = "yunikorn-configs") -> str:
    """The queue file in a block scalar begins in line 7, indented by 4."""
    return HEAD.format(name=name) + "data:\n  queues.yaml: |\n" + indent(text, "    ")


def compressed(content: bytes) -> str:
    return HEAD.format(name="c") + "binaryData:\n  queues.yaml.gz: " + base64.b64encode(content).decode() + "\n"


def packed(text: str) -> str:
    return compressed(gzip.compress(text.encode(), mtime=0))


def helm(text: str) -> str:
    return "image: {tag: x}\nyunikornDefaults:\n  queues.yaml: |\n" + indent(text, "    ")


def listed(*documents: str) -> str:
    items = [yaml.safe_load(document) for document in documents]
    return yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})


def mistakes_of(text: str) -> list[Mistake]:
    with pytest.raises(ConfigError) as caught:
        load(text, "cm.yaml")
    return caught.value.mistakes


def queue_of(config: SchedulerConfig) -> str:
    """The only leaf."""
    return by_path(config.partitions[0].root).popitem()[0]


@pytest.mark.parametrize(
    "text",
    [
        config_map(TEXT),
        config_map(TEXT, "any"),
        json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "data": {"queues.yaml": TEXT}}),
        packed(TEXT),
        helm(TEXT),
        listed(config_map(TEXT)),
        "kind: Namespace\nmetadata: {name: !x y}\n---\n" + config_map(TEXT) + "---\nkind: Service\n---\n",
        "---\n" + config_map(TEXT),
        config_map(TEXT).replace("\n", "\r\n"),
        "image: {tag: x}\nyunikorn:\n" + indent(helm(TEXT), "  "),
        config_map(TEXT).replace("queues.yaml: |", "service.policyGroup: teams\n  teams.yaml: |"),
        config_map(TEXT, "any").replace("queues.yaml: |", "service.policyGroup: teams\n  teams.yaml: |"),
        packed(TEXT).replace("queues.", "teams.") + "data: {service.policyGroup: teams}\n",
        "kind: ConfigMap\ndata:\n  a: &q |\n" + indent(TEXT, "    ") + "  queues.yaml: *q\n",
    ],
    ids=[
        "block",
        "name",
        "json",
        "gzip",
        "helm",
        "list",
        "documents",
        "marker",
        "crlf",
        "chart",
        "group",
        "group2",
        "group3",
        "alias",
    ],
)
def test_what_is_recognised(text: str) -> None:
    """CF-85, CF-12: the configuration and its checksum are those of the queue file inside; the text is the whole one."""
    config = load(text)
    assert config.partitions == load(TEXT).partitions
    assert config.checksum == checksum_of(TEXT)
    assert config.text == text


@pytest.mark.parametrize(
    "text",
    [TEXT + "kind: ConfigMap\n", TEXT + "yunikornDefaults: {}\n", "partition: []\nkinds: 1\n"],
)
def test_a_queue_file_is_no_manifest(text: str) -> None:
    """CF-85: whatever has partitions at the top is a queue file, so its other keys are unknown; also where it is misspelt."""
    assert mistakes_of(text)[0].code == "P2"


@pytest.mark.parametrize(
    ("texts", "leaf"),
    [
        ([config_map(TEXT, "yunikorn-defaults"), config_map(OTHER)], "root.b"),
        ([config_map(OTHER), config_map(TEXT, "yunikorn-defaults")], "root.b"),
        ([config_map(OTHER), config_map(TEXT, "any")], "root.b"),
        ([config_map(TEXT, "one"), config_map(OTHER, "two")], "root.b"),
        ([packed(OTHER), config_map(TEXT, "yunikorn-defaults")], "root.b"),
    ],
)
def test_the_last_queue_file_counts(texts: list[str], leaf: str) -> None:
    """CF-86: yunikorn-configs replaces yunikorn-defaults, otherwise the last one counts; the others get a warning."""
    config = load("---\n".join(texts), "cm.yaml")
    assert queue_of(config) == leaf
    assert len(config.warnings) == 1
    assert "no effect: the queues.yaml" in config.warnings[0]


def test_compressed_counts_within_a_config_map() -> None:
    """CF-86: binaryData comes after data."""
    assert queue_of(load(packed(OTHER) + "data:\n  queues.yaml: |\n" + indent(TEXT, "    "))) == "root.b"


def test_other_settings_are_ignored() -> None:
    """CF-89: they are named once, those of all ConfigMaps of YuniKorn, and not those of other ConfigMaps."""
    settings = HEAD.format(name="yunikorn-defaults") + "data:\n  service.schedulingInterval: 2s\n"
    other = HEAD.format(name="nginx") + "data:\n  port: '80'\n"
    text = "---\n".join([settings, other, config_map(TEXT) + '  log.level: "INFO"\n'])
    warning = "cm.yaml:6:3: data: only the queue file is used, ignored: service.schedulingInterval, log.level"
    assert load(text, "cm.yaml").warnings == (warning,)


def test_many_ignored_settings() -> None:
    """CF-89: at most 20 are named."""
    text = config_map(TEXT) + "".join(f"  log.l{number}: x\n" for number in range(25))
    (warning,) = load(text).warnings
    assert warning.endswith("log.l19 and 5 more")


# ---- places


def escaped(text: str) -> str:
    return json.dumps(text)


WRAPPED = [
    ("block", config_map(WRONG), 10, 30),
    ("keep", config_map("\n\n" + WRONG + "\n").replace("|", "|+"), 12, 30),
    ("indicator", config_map(WRONG).replace("|", "|2  # text"), 10, 30),
    ("indented", config_map(indent(WRONG, "  ")).replace("|", "|2"), 10, 32),
    ("anchor", config_map(WRONG).replace("|", "&a !!str |"), 10, 30),
    ("json", '{"kind": "ConfigMap", "data": {"queues.yaml": ' + escaped(WRONG) + "}}", 1, 47 + WRONG.index("x\n") + 4),
    ("unicode", '{"kind": "ConfigMap", "data": {"queues.yaml": ' + escaped("#\u00e4\u2028\n" + WRONG) + "}}", 1,
     47 + WRONG.index("x\n") + 4 + 15),
    ("single", DATA + "'{partitions: [{queues: [{name: ''a'',\n    maxapplications: x}]}]}'\n", 4, 22),
    ("folded", DATA + ">\n    {partitions: [{queues: [{name: a,\n    maxapplications: x}]}]}\n", 5, 22),
    ("crlf", config_map(WRONG).replace("\n", "\r\n"), 10, 30),
    ("helm", helm(WRONG), 7, 30),
    ("second", "kind: Namespace\n---\n" + config_map(WRONG), 12, 30),
]  # fmt: skip


@pytest.mark.parametrize("loader", [yaml.CSafeLoader, yaml.SafeLoader])
@pytest.mark.parametrize(("text", "line", "column"), [case[1:] for case in WRAPPED], ids=[case[0] for case in WRAPPED])
def test_places_are_those_of_the_file(monkeypatch: pytest.MonkeyPatch, loader: type, text: str, line: int, column: int) -> None:
    """CF-88: line and column of a mistake are those of the text that people edit, however the queue file is quoted in it."""
    monkeypatch.setattr(yamltext, "LOADER", loader)
    (found,) = mistakes_of(text)
    assert (found.code, found.source, found.line, found.column) == ("P6", "cm.yaml", line, column)


def test_lines_in_messages() -> None:
    """CF-88: also the lines that messages name."""
    (found,) = mistakes_of(config_map(TEXT + "      - name: A\n"))
    assert (found.code, found.line) == ("E22", 10)
    assert "the first is in line 9" in found.message


@pytest.mark.parametrize(
    ("text", "line", "column", "part"),
    [
        ("partitions: [\n", 8, 1, "did not find expected node content"),
        ("partitions:\n\t- name: a\n", 8, 5, "indent with spaces"),
        ("partitions:\n  - name: 'open\n", 9, 1, "that starts at line 8, column 15"),
        ("a: b: c\n", 7, 9, "not YAML"),
    ],
)
def test_syntax_errors_in_the_queue_file(text: str, line: int, column: int, part: str) -> None:
    """CF-88: also of a text that is not YAML."""
    (found,) = mistakes_of(config_map(text))
    assert (found.code, found.line, found.column) == ("P1", line, column)
    assert part in found.message


def test_places_of_warnings() -> None:
    """CF-88: warnings too."""
    config = load(config_map(TEXT + "        properties: {priority.offset: x}\n"), "cm.yaml")
    assert config.warnings[0].startswith("cm.yaml:10:43: partitions[0].queues[0](root.a).properties.priority.offset: ")


def test_places_in_compressed_text() -> None:
    """CF-87: the file has no lines for them, so they are those after decompression, and the source says so."""
    (found,) = mistakes_of(packed(WRONG))
    assert (found.source, found.line, found.column) == ("cm.yaml(queues.yaml.gz, uncompressed)", 4, 26)


# ---- mistakes


@pytest.mark.parametrize(
    ("text", "line", "column", "part"),
    [
        ("kind: Namespace\n", 1, 1, "found no queue file, expected partitions at the top, a ConfigMap with queues.yaml in data"),
        ("apiVersion: v1\ndata: {}\n", 1, 1, "found no queue file"),
        ("name: a\nconfig: ''\nuntil: 1\n", 1, 1, "found no queue file but the keys name, config, until, expected partitions"),
        ("image: a\nserviceAccount: b\n", 1, 1, "found no queue file"),  # the values of a chart without yunikornDefaults
        (HEAD.format(name="yunikorn-configs") + "data:\n", 1, 1, "found no queue file"),
        (HEAD.format(name="a") + "data: {queue.yaml: x}\n", 5, 8, "found no queue file, but this key"),
        (HEAD.format(name="a") + "binaryData: {queues.yaml: eA==}\n", 5, 14, "found no queue file, but this key"),
        ("yunikornDefaults: {}\n", 1, 1, "found no queue file"),
        ("yunikornDefaults:\n", 1, 1, "found no queue file"),
        (config_map(TEXT) + "  service.policyGroup: x\n", 1, 1, "a ConfigMap with x.yaml in data or x.yaml.gz in"),
        (HEAD.format(name="c") + "binaryData: {queues.yaml.gz: '?'}\n", 5, 30, "found text that is not base64"),
        (compressed(b"plain"), 6, 19, "found data that are not gzip"),
        (compressed(gzip.compress(TEXT.encode(), mtime=0)[:-9]), 6, 19, "or damaged"),
        (compressed(gzip.compress(b"\xff", mtime=0)), 6, 19, "found no UTF-8 text after decompression"),
    ],
)  # fmt: skip
def test_no_queue_file(text: str, line: int, column: int, part: str) -> None:
    """P9: a manifest without a queue file that can be read, at the key that was probably meant."""
    (found,) = mistakes_of(text)
    assert (found.code, found.line, found.column) == ("P9", line, column)
    assert part in found.message


def test_decompression_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """CF-87: text that is larger after decompression than a file may be is refused, and no more than that is unpacked."""
    monkeypatch.setattr(manifests, "UNCOMPRESSED_MAX", 1000)
    assert queue_of(load(packed(TEXT + "#" * (1000 - len(TEXT))))) == "root.a"
    (found,) = mistakes_of(packed(TEXT + "#" * (1001 - len(TEXT))))
    assert (found.code, "more than 1000 bytes after decompression" in found.message) == ("P9", True)


def test_members_of_gzip_are_joined() -> None:
    """CF-87: as gzip does."""
    assert load(compressed(gzip.compress(TEXT[:9].encode()) + gzip.compress(TEXT[9:].encode()))).checksum == checksum_of(TEXT)


def test_a_mapping_instead_of_text() -> None:
    """P4: Kubernetes would refuse it too."""
    (found,) = mistakes_of("kind: ConfigMap\ndata:\n  queues.yaml:\n    partitions: []\n")
    assert (found.code, found.line, found.path) == ("P4", 4, "data.queues.yaml")
    assert found.message == "found a mapping, expected text; write | after the key"


def test_a_repeated_key() -> None:
    """P3: in the map of settings too."""
    (found,) = mistakes_of(config_map(TEXT) + "  queues.yaml: ''\n")
    assert (found.code, found.line) == ("P3", 10)


@pytest.mark.parametrize(
    "text", ["kind: ConfigMap\ndata: {queues.yaml: ''}\n", "kind: ConfigMap\ndata: {queues.yaml: }\n", packed("")]
)
def test_an_empty_queue_file(text: str) -> None:
    """CF-1: it means the built-in configuration, in a manifest with a warning."""
    config = load(text)
    assert config.checksum == checksum_of(DEFAULT_TEXT)
    assert "the queue file is empty, so the built-in configuration is used" in config.warnings[0]


def test_two_documents_in_the_queue_file() -> None:
    """P8: only the documents of the manifest may be many."""
    (found,) = mistakes_of(config_map(TEXT + "---\n" + OTHER))
    assert (found.code, found.line, found.column) == ("P8", 10, 5)
