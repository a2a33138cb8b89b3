import hashlib
import time
from pathlib import Path

import pytest
import yaml

from ykactor.core.queueconfig import NodeSortPolicy, QueueConfig, QueueProperties, SchedulerConfig
from ykactor.wire import yamltext
from ykactor.wire.queuefile import DEFAULT_TEXT, ConfigError, Mistake, load

CONFIG = Path(__file__).parents[2] / "config"

#: Stands before the queues of one partition: these start in line 4 with six spaces.
HEAD = "partitions:\n  - name: default\n    queues:\n"
#: Stands before the other keys of a partition: these start in line 4 with four spaces.
PARTITION = "partitions:\n  - name: default\n    queues: []\n"
ROOT = HEAD + "      - name: root\n        queues:\n"


def mistakes_of(text: str) -> list[Mistake]:
    with pytest.raises(ConfigError) as caught:
        load(text, "q.yaml")
    return caught.value.mistakes


def codes_of(text: str) -> list[str]:
    return [mistake.code for mistake in mistakes_of(text)]


def queues_of(text: str) -> dict[str, QueueConfig]:
    """The queues of the first partition by path."""
    return by_path(load(text).partitions[0].root)


def by_path(queue: QueueConfig) -> dict[str, QueueConfig]:
    found: dict[str, QueueConfig] = {queue.path: queue}
    for child in queue.children:
        found |= by_path(child)
    return found


def queue_with(fields: str) -> str:
    """A configuration whose only leaf ``root.a`` has ``fields`` (flow style)."""
    return HEAD + f"      - {{name: a, {fields}}}\n"


# ---- mistakes: code, line, column, path, and a part of the message

A = "partitions[0].queues[0](root.a)"
R = "partitions[0].queues[0](root)"
RA = "partitions[0].queues[0].queues[0](root.a)"
RB = "partitions[0].queues[0].queues[1](root.b)"

PARSE = [
    ("P1", "partitions: [\n", 2, 1, "", "not YAML"),
    ("P1", "partitions:\n\t- name: a\n", 2, 1, "", "indent with spaces"),
    ("P1", queue_with("submitacl: *"), 4, 31, "", 'put a star in quotes: "*"'),
    ("P1", "partitions:\n  - name: 'open\n", 3, 1, "", "quoted scalar that starts at line 2, column 11"),
    ("P1", "partitions:\n  - \x00\n", 2, 5, "", r"the character '\x00' is not allowed"),
    ("P1", "partitions: \ud800\n", 1, 13, "", r"the character '\ud800' is not allowed"),
    ("P1", "partitions: *none\n", 1, 13, "", "alias *none"),
    ("P1", "partitions: &x [*x]\n", 1, 17, "", "alias *x"),
    ("P1", "[" * 300_000, 1, 257, "", "nested more than 256 levels"),
    ("P2", "partition: []\n", 1, 1, "partition", "did you mean partitions?"),
    ("P2", queue_with("maxApplications: 1"), 4, 19, f"{A}.maxApplications", "did you mean maxapplications?"),
    ("P2", queue_with("resources: {mix: {}}"), 4, 31, f"{A}.resources.mix", "did you mean max?"),
    ("P2", PARTITION + "    nodessortpolicy: {}\n", 4, 5, "partitions[0].nodessortpolicy", "did you mean nodesortpolicy?"),
    ("P2", queue_with("<<: {parent: true}"), 4, 19, A, "merge keys"),
    ("P3", queue_with("parent: true, parent: true"), 4, 33, f"{A}.parent", "already set in line 4"),
    ("P3", queue_with("properties: {x: 1, 'x': 2}"), 4, 38, f"{A}.properties.x", "already set in line 4"),
    ("P4", "hello\n", 1, 1, "", "found 'hello', expected a mapping"),
    ("P4", "partitions: default\n", 1, 13, "partitions", "found 'default', expected a list"),
    ("P4", PARTITION + "    nodesortpolicy: fair\n", 4, 21, "partitions[0].nodesortpolicy", "expected a mapping"),
    ("P4", queue_with("queues: {b: 1}"), 4, 27, "partitions[0].queues[0].queues", "found a mapping, expected a list"),
    ("P4", queue_with("submitacl: [bob]"), 4, 30, f"{A}.submitacl", "found a list, expected text"),
    ("P4", queue_with("? [x] : 1"), 4, 21, A, "found a list as a key"),
    ("P4", "partitions: [none]\n", 1, 14, "partitions[0]", "found 'none', expected a mapping"),
    ("P4", HEAD + "      - null\n", 4, 9, "partitions[0].queues[0]", "found null, expected a mapping"),
    ("P4", HEAD + "      - name: [a]\n", 4, 15, "partitions[0].queues[0](root.?).name", "found a list"),
    ("P4", queue_with("submitacl: !!binary bob"), 4, 30, "", "found the tag"),
    ("P4", "partitions:\n  - queues: []\nchecksum: [1]\n", 3, 11, "checksum", "found a list, expected text"),
    ("P5", queue_with("parent: maybe"), 4, 27, f"{A}.parent", "found 'maybe', expected true or false"),
    ("P5", queue_with("parent: 'true'"), 4, 27, f"{A}.parent", "found the quoted text 'true'"),
    ("P6", queue_with("maxapplications: -1"), 4, 36, f"{A}.maxapplications", "found '-1', expected a whole number"),
    ("P6", queue_with("maxapplications: 1.5"), 4, 36, f"{A}.maxapplications", "found '1.5'"),
    ("P6", queue_with("maxapplications: '5'"), 4, 36, f"{A}.maxapplications", "found the quoted text '5'"),
    ("P6", queue_with("maxapplications: many"), 4, 36, f"{A}.maxapplications", "found 'many'"),
    ("P6", queue_with(f"maxapplications: {2**64}"), 4, 36, f"{A}.maxapplications", "2**64 - 1"),
    ("P8", "partitions:\n  - queues: []\n---\npartitions: []\n", 3, 1, "", "second document"),
    ("P8", "# nothing\n", 1, 1, "partitions", "found no partition"),
    ("P8", "{}\n", 1, 1, "partitions", "found no partition"),
    ("P8", "\ufeff", 1, 1, "partitions", "found no partition"),
    ("P8", "checksum: x\npartitions: []\n", 1, 1, "partitions", "found no partition"),
]

LATER = "not supported in this version"
UNSUPPORTED = [
    ("P2", HEAD + "      - name: a\n        limits: []\n", 5, 9, f"{A}.limits", LATER),
    ("P2", HEAD + "      - name: a\n        childtemplate: {maxapplications: 1}\n", 5, 9, f"{A}.childtemplate", LATER),
    ("P2", PARTITION + "    limits: []\n", 4, 5, "partitions[0].limits", LATER),
    ("P2", PARTITION + "    placementrules: []\n", 4, 5, "partitions[0].placementrules", LATER),
    ("P2", PARTITION + "    preemption: {enabled: true}\n", 4, 5, "partitions[0].preemption", LATER),
    ("P2", PARTITION + "    usergroupresolver: {}\n", 4, 5, "partitions[0].usergroupresolver", LATER),
]

WEIGHTS = PARTITION + "    nodesortpolicy: {resourceweights: {vcore: %s}}\n"
WEIGHT_PATH = "partitions[0].nodesortpolicy.resourceweights.vcore"
NUMBERS = [
    ("P7", WEIGHTS % ".nan", 4, 47, WEIGHT_PATH, "found '.nan', expected a finite number"),
    ("P7", WEIGHTS % "-.inf", 4, 47, WEIGHT_PATH, "found '-.inf'"),
    ("P7", WEIGHTS % "1e999", 4, 47, WEIGHT_PATH, "found '1e999'"),
    ("P7", WEIGHTS % "heavy", 4, 47, WEIGHT_PATH, "found 'heavy'"),
    ("P7", WEIGHTS % "'1'", 4, 47, WEIGHT_PATH, "found the quoted text '1'"),
    ("P7", WEIGHTS % "", 4, 47, WEIGHT_PATH, "found null"),
    ("P4", WEIGHTS % "[1]", 4, 47, WEIGHT_PATH, "found a list"),
    ("E37", WEIGHTS % "-0.5", 4, 47, WEIGHT_PATH, "found -0.5, expected a weight from 0 to 1e+100"),
    ("E37", WEIGHTS % "1e308", 4, 47, WEIGHT_PATH, "found 1e+308, expected a weight from 0 to 1e+100"),
    ("E36", PARTITION + "    nodesortpolicy: {type: Fair}\n", 4, 28, "partitions[0].nodesortpolicy.type", "fair or binpacking"),
]

RULES = [
    ("E01", "partitions:\n  - {name: x, queues: []}\n  - name: X\n    queues: []\n", 3, 11, "partitions[1].name", "second"),
    ("E01", "partitions:\n  - queues: []\n  - name: Default\n    queues: []\n", 3, 11, "partitions[1].name", "partitions[0]"),
    ("E02", "partitions:\n  - name: default\n", 2, 5, "partitions[0].queues", "found no queues"),
    ("E02", "partitions:\n  - name: default\n    queues:\n", 3, 5, "partitions[0].queues", "found no queues"),
    ("E03", HEAD + "      - name: root\n        resources:\n          max: {}\n", 6, 11, f"{R}.resources.max",
     "root queue must not have resource limits set"),
    ("E03", HEAD + "      - name: root\n        resources:\n          guaranteed: {vcore: 1}\n", 6, 11,
     f"{R}.resources.guaranteed", "root queue must not have resource limits set"),
    ("E06", queue_with("adminacl: 'a b c'"), 4, 29, f"{A}.adminacl", "found 'a b c'"),
    ("E21", HEAD + "      - name: a.b\n", 4, 15, "partitions[0].queues[0](root.'a.b').name", "found 'a.b'"),
    ("E21", HEAD + "      - parent: true\n", 4, 9, "partitions[0].queues[0](root.?).name", "found nothing"),
    ("E22", ROOT + "          - name: a\n          - name: A\n", 7, 19, "partitions[0].queues[0].queues[1](root.a).name",
     "the first is in line 6"),
    ("CF-28", ROOT + "          - name: '@Recovery@'\n", 6, 19, "partitions[0].queues[0].queues[0](root.@recovery@).name",
     "reserved"),
    ("E23", queue_with("resources: {max: {vcore: 2GB}}"), 4, 44, f"{A}.resources.max.vcore", "unknown suffix 'GB'"),
    ("E23", queue_with("resources: {guaranteed: {memory: }}"), 4, 44, f"{A}.resources.guaranteed.memory", "found nothing"),
    ("E24", queue_with("resources: {max: {vcore: 1}, guaranteed: {vcore: 2}}"), 4, 68, f"{A}.resources.guaranteed.vcore",
     "found 2000 thousandths of a vcore, expected at most 1000, the max of the same queue"),
    ("E25", HEAD + "      - name: a\n        resources: {max: {memory: 5}}\n        queues:\n"
     "          - name: b\n            queues: [{name: c, resources: {max: {memory: 6}}}]\n", 8, 58,
     "partitions[0].queues[0].queues[0].queues[0](root.a.b.c).resources.max.memory",
     "found 6 of memory, expected at most 5, the max of root.a"),
    ("E26", HEAD + "      - name: a\n        resources: {guaranteed: {gpu: 3}}\n        queues:\n"
     "          - {name: b, resources: {guaranteed: {gpu: 2}}}\n          - {name: c, resources: {guaranteed: {gpu: 2}}}\n",
     5, 39, f"{A}.resources.guaranteed.gpu", "found 4 of gpu, expected at most 3, the guarantee of root.a"),
    ("E27", HEAD + "      - name: a\n        resources: {max: {gpu: 3}}\n        queues:\n"
     "          - {name: b, resources: {guaranteed: {gpu: 2}}}\n          - {name: c, resources: {guaranteed: {gpu: 2}}}\n",
     5, 32, f"{A}.resources.max.gpu", "found 4 of gpu, expected at most 3, the max of root.a"),
    ("E38", ROOT.replace("root\n", "root\n        maxapplications: 5\n")
     + "          - name: a\n            maxapplications: 6\n", 8, 30, f"{RA}.maxapplications", "found 6, expected at most 5"),
    ("E39", ROOT.replace("root\n", "root\n        maxapplications: 5\n")
     + "          - {name: a, maxapplications: 5}\n          - name: b\n", 8, 13, f"{RB}.maxapplications",
     "found no limit (0), expected 1 to 5"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "line", "column", "path", "part"), PARSE + UNSUPPORTED + NUMBERS + RULES)
def test_single_mistake(code: str, text: str, line: int, column: int, path: str, part: str) -> None:
    """CF section 7: each mistake alone gives its code at its line, column and path, and says what was found."""
    found = mistakes_of(text)
    assert [(m.code, m.source, m.line, m.column, m.path) for m in found] == [(code, "q.yaml", line, column, path)]
    assert part in found[0].message


def test_str_is_one_line_per_mistake() -> None:
    """``str`` of the error is ``file:line:column: path: message (CODE)``, one line each, also with odd keys and values."""
    text = queue_with('"new\\nline": 1, maxapplications: "\\n"')
    with pytest.raises(ConfigError) as caught:
        load(text, "q.yaml")
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert lines[1] == (
        "q.yaml:4:52: partitions[0].queues[0](root.a).maxapplications: "
        r"found the quoted text '\n', expected a whole number from 0 to 2**64 - 1, without quotes (P6)"
    )


def test_all_mistakes_in_the_order_of_the_stages() -> None:
    """CF section 7: text mistakes by place, then per partition structure, queues, resources, node sort, maxapplications."""
    text = """\
partitions:
  - nodesortpolicy: {type: best}
    queues:
      - name: root
        maxapplications: 1
        resources: {max: {}}
        queues:
          - name: a b
            parent: perhaps
            resources: {max: {vcore: x}}
            submitacl: a b c
  - name: default
    colour: red
    queues:
      - {name: a, maxapplications: x}
      - {name: a, resources: {max: {vcore: 1}, guaranteed: {vcore: 2}}}
"""
    assert codes_of(text) == ["P5", "P2", "P6", "E03", "E21", "E06", "E23", "E36", "E39", "E01", "E22", "E24"]


def test_a_value_that_could_not_be_read_breaks_no_rule() -> None:
    """A mistake is reported once: an unreadable maxapplications does not also count as 0 below a limited parent."""
    text = ROOT.replace("root\n", "root\n        maxapplications: 5\n")
    assert codes_of(text + "          - {name: a, maxapplications: x}\n") == ["P6"]


def test_root_resources_limit_nothing_below() -> None:
    """E03 is one mistake: what is written on root is not compared with the queues below it (CF section 7.4)."""
    text = (
        HEAD
        + "      - name: root\n        resources: {max: {vcore: 1}}\n        queues: [{name: a, resources: {max: {vcore: 2}}}]\n"
    )
    assert codes_of(text) == ["E03"]


def test_null_counts_as_not_set() -> None:
    """CF-10, CF-42: a null value of any key, also of one of a later version, is as if the key were absent."""
    text = """\
partitions:
  - name:
    preemption:
    limits: null
    nodesortpolicy: ~
    queues:
      - name: root
        parent:
        childtemplate: Null
        resources: {max: , guaranteed: }
        maxapplications: NULL
        properties:
        submitacl:
        queues:
"""
    config = load(text)
    root = config.partitions[0].root
    assert config.partitions[0].name == "default"
    assert root == QueueConfig(path=root.path, is_parent=True)


# ---- the text


def test_empty_text_is_the_default() -> None:
    """CF-1: empty text means the built-in configuration, root with one leaf and everybody may submit."""
    config = load("")
    assert config.text == DEFAULT_TEXT
    assert config == load(DEFAULT_TEXT)
    assert list(by_path(config.partitions[0].root)) == ["root", "root.default"]
    assert config.partitions[0].root.submit_acl == "*"


def test_checksum() -> None:
    """CF-12: upper-case SHA-256 of the text without the checksum in it, so that adding one does not change it."""
    text = queue_with("parent: true")
    expected = hashlib.sha256(text.encode()).hexdigest().upper()
    assert load(text).checksum == expected
    assert load(text + "checksum: " + expected).checksum == expected
    assert load("checksum: " + expected + "\n" + text).checksum == hashlib.sha256(b"\n" + text.encode()).hexdigest().upper()
    short = "checksum: abc\n"
    assert load(short + text).checksum != load(short + text.replace("true", "false")).checksum


def test_scalars_stay_text() -> None:
    """CF-5: text fields keep the source text whatever YAML would make of it; null is the empty string."""
    text = queue_with("properties: {a: 010, b: yes, c: 12:30, d: 1.50, e: 2024-01-01, f: , g: 'null', h: 0x10}")
    assert queues_of(text)["root.a"].raw_properties == {
        "a": "010", "b": "yes", "c": "12:30", "d": "1.50", "e": "2024-01-01", "f": "", "g": "null", "h": "0x10",
    }  # fmt: skip
    resources = queues_of(queue_with("resources: {max: {vcore: 010}}"))["root.a"].max
    assert resources == {"vcore": 10_000}


@pytest.mark.parametrize("word", ["true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"])
def test_words_for_true(word: str) -> None:
    """CF-6: the YAML 1.1 words for true."""
    assert queues_of(queue_with(f"parent: {word}"))["root.a"].is_parent


@pytest.mark.parametrize("word", ["false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"])
def test_words_for_false(word: str) -> None:
    """CF-6: the YAML 1.1 words for false; with children listed the queue is a parent all the same."""
    assert not queues_of(queue_with(f"parent: {word}"))["root.a"].is_parent
    assert queues_of(queue_with(f"parent: {word}, queues: [{{name: b}}]"))["root.a"].is_parent


def test_unsigned_range() -> None:
    """CF-7: 0 to 2**64 - 1."""
    assert queues_of(queue_with(f"maxapplications: {2**64 - 1}"))["root.a"].max_applications == 2**64 - 1


def test_aliases_stand_for_their_anchor() -> None:
    """Anchors and aliases may be used; a mistake in the anchor is found for every queue that uses it."""
    text = HEAD + "      - {name: a, resources: &r {max: {vcore: 2}}}\n      - {name: b, resources: *r}\n"
    queues = queues_of(text)
    assert queues["root.a"].max == queues["root.b"].max == {"vcore": 2000}
    assert [m.path for m in mistakes_of(text.replace("2}}", "x}}"))] == [
        "partitions[0].queues[0](root.a).resources.max.vcore",
        "partitions[0].queues[1](root.b).resources.max.vcore",
    ]


def test_alias_bombs_are_refused() -> None:
    """Aliases of aliases may not grow without bound, neither in width nor in depth."""
    wide = "a0: &a0 [x,x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1},' * 9}]\n" for i in range(1, 30))
    deep = "a0: &a0 " + "[" * 200 + "]" * 200 + "\na1: " + "[" * 100 + "*a0" + "]" * 100 + "\n"
    assert "repeat more than 100000 values" in mistakes_of(wide)[0].message
    assert "nested more than 256 levels" in mistakes_of(deep)[0].message


def test_deep_trees_load() -> None:
    """A hundred levels of queues are legal."""
    depth = 100
    text = "partitions: [{queues: [" + "{name: q, queues: [" * depth + "]}" * depth + "]}]"
    assert "root" + ".q" * depth in queues_of(text)


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
def test_both_parsers_agree(loader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without libyaml the parser in Python gives the same configuration, byte order mark and wide characters included."""
    monkeypatch.setattr(yamltext, "LOADER", getattr(yaml, loader))
    text = "\ufeff" + queue_with("properties: {ключ: 😀, parent: yes}, submitacl: ' g'").replace("name", "'name'", 1)
    queue = queues_of(text)["root.a"]
    assert queue.raw_properties == {"ключ": "😀", "parent": "yes"}
    assert queue.submit_acl == " g"
    assert [(m.line, m.column) for m in mistakes_of(queue_with("properties: {ключ: [😀]}"))] == [(4, 38)]


def test_large_file_is_fast() -> None:
    """5,000 queues load in well under a second with libyaml (bound with room for a busy machine)."""
    leaf = "{name: q%d, maxapplications: 9, properties: {priority.offset: 5}, resources: {max: {vcore: 10, memory: 10Gi}}}"
    parents = "".join(
        f"      - name: p{i}\n        queues:\n" + "".join(f"          - {leaf % j}\n" for j in range(99)) for i in range(50)
    )
    start = time.perf_counter()
    load(HEAD + parents)
    assert time.perf_counter() - start < 3


# ---- normalisation


def test_root_is_inserted() -> None:
    """CF-14: without a single root entry the listed queues become children of an inserted root."""
    assert list(queues_of(HEAD + "      - name: a\n      - name: b\n")) == ["root", "root.a", "root.b"]
    assert list(queues_of("partitions: [{queues: []}]")) == ["root"]
    assert load("partitions: [{queues: []}]").partitions[0].root.is_parent


def test_a_single_root_is_the_root() -> None:
    """CF-14, CF-15: one entry named root in any case is the root, in lower case and always a parent."""
    root = load(HEAD + "      - {name: ROOT, parent: false, submitacl: x}\n").partitions[0].root
    assert (root.path, root.is_parent, root.submit_acl) == ("root", True, "x")


def test_root_beside_others_is_a_child() -> None:
    """CF-14, CF-19: root beside other entries is root.root, and may have resources as it has a parent."""
    queues = queues_of(HEAD + "      - {name: root, resources: {max: {vcore: 1}}}\n      - name: a\n")
    assert queues["root.root"].max == {"vcore": 1000}


def test_names_are_lower_cased() -> None:
    """CF-16, CF-17: paths are lower case; the partition's name keeps its case unless it is ``default``."""
    config = load("partitions:\n  - {name: GPU, queues: [{name: Dev, queues: [{name: A}]}]}\n  - {name: DEFAULT, queues: []}")
    assert list(by_path(config.partitions[0].root)) == ["root", "root.dev", "root.dev.a"]
    assert [partition.name for partition in config.partitions] == ["GPU", "default"]


def test_the_reserved_name_is_free_below_other_queues() -> None:
    """CF-28: only root.@recovery@ is reserved."""
    assert "root.a.@recovery@" in queues_of(queue_with("queues: [{name: '@recovery@'}]"))


@pytest.mark.parametrize("acl", ["", " ", "*", "u", "u ", " g", "u g", "* ", " *", "a,b c,d"])
def test_legal_acls(acl: str) -> None:
    """E06: the legal forms of an ACL, kept as they are."""
    assert queues_of(queue_with(f"submitacl: '{acl}'"))["root.a"].submit_acl == acl


@pytest.mark.parametrize("acl", ["a  b", "a b ", "  ", " a b", "a b c", r"a\tb\tc"])
def test_illegal_acls(acl: str) -> None:
    """E06: what splits into more than two fields by either reading is refused."""
    assert codes_of(queue_with(f'submitacl: "{acl}"')) == ["E06"]


# ---- resources


def test_zeros() -> None:
    """QU-33: a max of zeros only is kept; an empty max and a guarantee without a positive quantity are not set."""
    queue = queues_of(queue_with("resources: {max: {gpu: 0}, guaranteed: {vcore: 0}}"))["root.a"]
    assert (queue.max, queue.guaranteed) == ({"gpu": 0}, None)
    queue = queues_of(queue_with("resources: {max: {}, guaranteed: {vcore: 0, memory: 1}}"))["root.a"]
    assert (queue.max, queue.guaranteed) == (None, {"vcore": 0, "memory": 1})


def test_guarantees_are_reported_per_type() -> None:
    """A type that the parent does not guarantee itself is passed up as the sum of its children (E26, E27)."""
    text = HEAD + (
        "      - name: a\n        resources: {max: {vcore: 2}}\n        queues:\n"
        "          - name: b\n            resources: {guaranteed: {memory: 9}}\n"
        "            queues: [{name: c, resources: {guaranteed: {memory: 1, vcore: 3}}}]\n"
    )
    found = mistakes_of(text)
    # The effective max of b is that of a, so both levels are too small for c.
    assert [(m.code, m.path) for m in found] == [
        ("E27", "partitions[0].queues[0].queues[0](root.a.b).resources.max.vcore"),
        ("E27", "partitions[0].queues[0](root.a).resources.max.vcore"),
    ]
    assert all(m.message.endswith("found 3000 thousandths of a vcore, expected at most 2000, the max of root.a") for m in found)


def test_children_may_overcommit_the_max() -> None:
    """The sum of the children's max may exceed the parent's, and a type that only one side defines is not compared."""
    text = HEAD + (
        "      - name: a\n        resources: {max: {vcore: 2}, guaranteed: {vcore: 1}}\n        queues:\n"
        "          - {name: b, resources: {max: {vcore: 2, gpu: 7}, guaranteed: {vcore: 1, gpu: 1}}}\n"
        "          - {name: c, resources: {max: {vcore: 2}}}\n"
    )
    assert queues_of(text)["root.a.b"].max == {"vcore": 2000, "gpu": 7}


def test_sums_beyond_int64_do_not_wrap() -> None:
    """E26 with quantities at the edge: the sum is exact."""
    big = 2**63 - 1
    text = HEAD + (
        f"      - name: a\n        resources: {{guaranteed: {{gpu: {big}}}}}\n        queues:\n"
        f"          - {{name: b, resources: {{guaranteed: {{gpu: {big}}}}}}}\n"
        "          - {name: c, resources: {guaranteed: {gpu: 1}}}\n"
    )
    assert codes_of(text) == ["E26"]


def test_equal_application_limits_are_legal() -> None:
    """E38, E39: equal is legal, a parent of 0 allows anything, and only direct children are compared."""
    text = HEAD + "      - {name: a, maxapplications: 5, queues: [{name: b, maxapplications: 5}]}\n"
    assert queues_of(text)["root.a.b"].max_applications == 5
    assert queues_of(HEAD + "      - {name: a, queues: [{name: b, maxapplications: 5}]}\n")["root.a"].max_applications == 0


# ---- node sort policy


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("{}", NodeSortPolicy()),
        ("{type: '', resourceweights: {}}", NodeSortPolicy("fair", {"vcore": 1.0, "memory": 1.0})),
        ("{type: binpacking}", NodeSortPolicy("binpacking", {"vcore": 1.0, "memory": 1.0})),
        ("{resourceweights: {gpu: 4, vcore: .5, memory: 0}}", NodeSortPolicy("fair", {"gpu": 4.0, "vcore": 0.5, "memory": 0.0})),
    ],
)
def test_node_sort_policy(policy: str, expected: NodeSortPolicy) -> None:
    """CF section 2.7: an empty type is fair; weights replace the default only if there are any."""
    assert load(PARTITION + f"    nodesortpolicy: {policy}\n").partitions[0].node_sort_policy == expected


# ---- properties


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
    assert parent.raw_properties == {key: value}
    assert child.raw_properties == {key: inherited}
    assert grandchild.raw_properties == {key: "own"}


def test_meaning_of_properties() -> None:
    """CF-32, CF-36, CF-38: values in any case; the nearest application.sort.priority wins; the rest is the default."""
    top, middle, bottom = chain(
        "priority.policy: FENCE, priority.offset: -5, application.sort.policy: StateAware, application.sort.priority: Disabled",
        "priority.policy: ''",
        "application.sort.priority: ENABLED, application.sort.policy: fair",
    )
    assert top.properties == QueueProperties("stateaware", sort_by_priority=False, priority_fence=True, priority_offset=-5)
    assert middle.properties == QueueProperties("stateaware", sort_by_priority=False)
    assert bottom.properties == QueueProperties("fair")


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
        ("preemption.delay", "5s", "this property has no effect in this version"),
    ],
)  # fmt: skip
def test_bad_property_values_are_warnings(key: str, value: str, text: str) -> None:
    """CF section 6: a bad value is the default and one warning, at the queue that sets it and not where it is inherited."""
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


@pytest.mark.parametrize("properties", ["priority.offset: 999999999", "priority.offset: ", "my.own: x", "priority.policy: ''"])
def test_ordinary_properties_are_no_warnings(properties: str) -> None:
    """CF section 6: unknown keys are kept silently, empty values are the default, ordinary offsets are fine."""
    assert warnings_of(properties).warnings == ()


def test_priority_on_root_gives_no_message() -> None:
    """PR-13: offset and policy on root have no effect and give no message."""
    text = HEAD + "      - {name: root, properties: {priority.offset: 2000000000, priority.policy: fence}}\n"
    assert load(text).warnings == ()


# ---- samples


@pytest.mark.parametrize("path", sorted(CONFIG.glob("*.yaml")), ids=lambda path: path.name)
def test_samples_load(path: Path) -> None:
    """Every sample in config/ loads without a warning."""
    assert load(path.read_text(), str(path)).warnings == ()


def test_sample_queues() -> None:
    """config/queues.yaml says what its comments say."""
    queues = queues_of((CONFIG / "queues.yaml").read_text())
    leaves = [path for path, queue in queues.items() if not queue.is_parent]
    assert leaves == ["root.default", "root.teams.analytics", "root.teams.web", "root.batch"]
    assert queues["root.teams.web"].max == {"vcore": 48_000, "memory": 192 * 2**30, "nvidia.com/gpu": 0}
    assert queues["root.teams.web"].properties.sort_policy == "fair"
    assert queues["root.batch"].properties.priority_offset == -100


def test_sample_priorities() -> None:
    """config/priorities.yaml is the multitenancy example of the priorities document (PR section 9)."""
    queues = queues_of((CONFIG / "priorities.yaml").read_text())
    found = {path: (queue.properties.priority_fence, queue.properties.priority_offset) for path, queue in queues.items()}
    assert {path: value for path, value in found.items() if value != (False, 0)} == {
        "root.system.system-high": (False, 1000),
        "root.system.system-low": (False, -1000),
        "root.tenants": (True, 0),
        "root.tenants.tenant-a": (True, 10),
        "root.tenants.tenant-b": (True, 0),
    }
    assert len(found) == 12


def test_sample_binpacking() -> None:
    """config/binpacking.yaml fills nodes and weighs vcore four times."""
    policy = load((CONFIG / "binpacking.yaml").read_text()).partitions[0].node_sort_policy
    assert policy == NodeSortPolicy("binpacking", {"vcore": 4.0, "memory": 1.0})
