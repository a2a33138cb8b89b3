import hashlib
from pathlib import Path

import pytest
import yaml
from costs import is_linear
from queuetexts import HEAD, PARTITION, SAMPLES, A, by_path, mistakes_of, queue_with, queues_of

from ykactor.core.config.model import AccessList, NodeSortPolicy, QueueConfig
from ykactor.wire.queuefile import text as yamltext
from ykactor.wire.queuefile.load import DEFAULT_TEXT, ConfigError, load

CONFIG = Path(__file__).parents[2] / "config"

# ---- mistakes: code, line, column, path, and a part of the message

PARSE = [
    ("P1", "partitions: [\n", 2, 1, "", "not YAML"),
    ("P1", "partitions:\n\t- name: a\n", 2, 1, "", "indent with spaces"),
    ("P1", queue_with("submitacl: *"), 4, 31, "", 'put a star in quotes: "*"'),
    ("P1", "partitions:\n  - name: 'open\n", 3, 1, "", "quoted scalar that starts at line 2, column 11"),
    ("P1", "partitions:\n  - \x00\n", 2, 5, "", r"the character '\x00' is not allowed"),
    ("P1", "partitions: \ud800\n", 1, 13, "", r"the character '\ud800' is not allowed"),
    ("P1", "partitions: *none\n", 1, 13, "", "alias *none"),
    ("P1", "partitions: &x [*x]\n", 1, 17, "", "alias *x"),
    ("P1", "[" * 600, 1, 257, "", "nested more than 256 levels"),
    ("P2", "partition: []\n", 1, 1, "partition", "did you mean partitions?"),
    ("P2", queue_with("maxApplications: 1"), 4, 19, f"{A}.maxApplications", "did you mean maxapplications?"),
    ("P2", queue_with("resources: {mix: {}}"), 4, 31, f"{A}.resources.mix", "did you mean max?"),
    ("P2", PARTITION + "    nodessortpolicy: {}\n", 4, 5, "partitions[0].nodessortpolicy", "did you mean nodesortpolicy?"),
    ("P2", queue_with("<<: {parent: true}"), 4, 19, A, "merge keys"),
    ("P2", HEAD + "      - {name: root, resource: {}}\n", 4, 22, "partitions[0].queues[0](root).resource",
     "unknown key, expected one of name, parent, queues, maxapplications, properties, "),
    ("P2", queue_with("resource: {}"), 4, 19, f"{A}.resource", "did you mean resources?"),
    ("P2", queue_with("applicationsortpolicy: fair"), 4, 19, f"{A}.applicationsortpolicy",
     "did you mean application.sort.policy in properties?"),
    ("P2", queue_with("childtemplate: {priority.offset: 1}"), 4, 35, f"{A}.childtemplate.priority.offset",
     "did you mean priority.offset in properties?"),
    ("P2", queue_with("limits: [{maxapplications: 1, users: [a], priorityoffset: 1}]"), 4, 61, f"{A}.limits[0].priorityoffset",
     "expected one of limit, users, groups"),
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
    ("P2", PARTITION + "    usergroupresolver: {typ: os}\n", 4, 25, "partitions[0].usergroupresolver.typ", "did you mean type?"),
    ("P2", queue_with("limits: [{maxapplications: 1, user: [a]}]"), 4, 49, f"{A}.limits[0].user", "did you mean users?"),
    ("P2", queue_with("childtemplate: {limits: []}"), 4, 35, f"{A}.childtemplate.limits", "unknown key, expected one of"),
    ("P3", PARTITION + "    limits: []\n    limits: []\n", 5, 5, "partitions[0].limits", "already set in line 4"),
    ("P4", queue_with("limits: {users: [a]}"), 4, 27, f"{A}.limits", "found a mapping, expected a list"),
    ("P4", queue_with("limits: [a]"), 4, 28, f"{A}.limits[0]", "found 'a', expected a mapping"),
    ("P4", queue_with("limits: [{maxapplications: 1, users: a}]"), 4, 56, f"{A}.limits[0].users", "found 'a', expected a list"),
    ("P4", queue_with("limits: [{users: [a, [b]], maxapplications: 1}]"), 4, 40, f"{A}.limits[0].users[1]", "found a list"),
    ("P4", PARTITION + "    placementrules: user\n", 4, 21, "partitions[0].placementrules", "found 'user', expected a list"),
    ("P4", PARTITION + "    placementrules: [{name: user, parent: root}]\n", 4, 43, "partitions[0].placementrules[0].parent",
     "found 'root', expected a mapping"),
    ("P4", PARTITION + "    placementrules: [{name: user, filter: {users: bob}}]\n", 4, 51,
     "partitions[0].placementrules[0].filter.users", "found 'bob', expected a list"),
    ("P5", PARTITION + "    placementrules: [{name: user, create: 1}]\n", 4, 43, "partitions[0].placementrules[0].create", "'1'"),
    ("P5", PARTITION + "    preemption: {enabled: off.}\n", 4, 27, "partitions[0].preemption.enabled", "true or false"),
    ("P6", queue_with("limits: [{users: [b], maxapplications: -1}]"), 4, 58, f"{A}.limits[0].maxapplications", "found '-1'"),
    ("P6", queue_with("childtemplate: {maxapplications: x}"), 4, 52, f"{A}.childtemplate.maxapplications", "found 'x'"),
    ("P8", "partitions:\n  - queues: []\n---\npartitions: []\n", 3, 1, "", "second document"),
    ("P8", "# nothing\n", 1, 1, "partitions", "found no partition"),
    ("P8", "{}\n", 1, 1, "partitions", "found no partition"),
    ("P8", "~\n", 1, 1, "partitions", "found no partition"),
    ("P8", "\ufeff", 1, 1, "partitions", "found no partition"),
    ("P8", "checksum: x\npartitions: []\n", 2, 1, "partitions", "found no partition"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "line", "column", "path", "part"), PARSE)
def test_single_mistake(code: str, text: str, line: int, column: int, path: str, part: str) -> None:
    """CF-2 to CF-4, CF-6 to CF-9, CF-11: each mistake alone gives its code at its line, column and path, and what was found."""
    found = mistakes_of(text)
    assert [(m.code, m.source, m.line, m.column, m.path) for m in found] == [(code, "q.yaml", line, column, path)]
    assert part in found[0].message


def test_str_is_one_line_per_mistake() -> None:
    """``str`` of the error is ``file:line:column: path: message (CODE)``, one line each, also with unusual keys and values."""
    text = queue_with('"new\\nline": 1, maxapplications: "\\n"')
    with pytest.raises(ConfigError) as caught:
        load(text, "q.yaml")
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert lines[1] == (
        "q.yaml:4:52: partitions[0].queues[0](root.a).maxapplications: "
        r"found the quoted text '\n', expected a whole number from 0 to 2**64 - 1, without quotes (P6)"
    )


def test_a_summary_has_the_first_mistakes() -> None:
    """CF-52: 20 mistakes and the number of the others, so that a small text cannot cause a large answer; ``str`` has all."""
    with pytest.raises(ConfigError) as caught:
        load(queue_with("bad: 1, " * 1000 + "maxapplications: x"), "q.yaml")
    assert len(caught.value.mistakes) > 1000
    lines = caught.value.summary().splitlines()
    assert lines[:-1] == str(caught.value).splitlines()[:20]
    assert lines[-1] == f"and {len(caught.value.mistakes) - 20} more"


def test_a_summary_of_few_mistakes_has_all_of_them() -> None:
    """CF-52: 20 mistakes are not followed by a number."""
    with pytest.raises(ConfigError) as caught:
        load(queue_with(", ".join(f"bad{n}: 1" for n in range(20))), "q.yaml")
    assert len(caught.value.mistakes) == 20
    assert caught.value.summary() == str(caught.value)


def test_a_summary_is_short_whatever_the_paths() -> None:
    """CF-52: of a line that is very long, as its path is, the place and the end of the message are left."""
    text = "".join("{name: " + "n" * 60 + ", queues: [" for _ in range(100)) + "{bad: 1}" + "]}" * 100
    with pytest.raises(ConfigError) as caught:
        load(HEAD + f"      - {text}\n", "q.yaml")
    assert len(str(caught.value)) > 5000
    line = caught.value.summary().splitlines()[0]
    assert len(line) <= 1005
    assert line.startswith("q.yaml:4:")
    assert line.endswith(str(caught.value).splitlines()[0][-100:])


def test_null_counts_as_not_set() -> None:
    """CF-10, CF-42: a null value of any key, of whatever kind, is as if the key were absent."""
    text = """\
partitions:
  - name:
    preemption:
    limits: null
    placementrules:
    usergroupresolver: {type: }
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


SWITCH = "partitions:\n  - preemption: {quotapreemptionenabled: true}\n"
QUEUE = "    queues:\n      - name: a\n"
DELAYED = QUEUE + "        properties: {quota.preemption.delay: 1m}\n"
TEMPLATE = "        parent: true\n        childtemplate: {properties: {quota.preemption.delay: 1m}}\n"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (
            "partitions:\n  -\n" + DELAYED,
            "q.yaml:5:46: partitions[0].queues[0](root.a).properties",
            "no effect: quotapreemptionenabled is not true in the preemption settings of the partition",
        ),
        (SWITCH + QUEUE, "q.yaml:2:42: partitions[0].preemption", "no effect: no queue has the property"),
        (
            SWITCH + DELAYED + TEMPLATE,
            "q.yaml:7:62: partitions[0].queues[0](root.a).childtemplate.properties",
            "no effect: there is no quota preemption in queues that placement creates",
        ),
    ],
)
def test_quota_preemption_without_effect(text: str, place: str, message: str) -> None:
    """PE-90, PE-97: a switch without a delay, a delay without the switch, and a delay in a template give a warning."""
    (warning,) = load(text, "q.yaml").warnings
    assert warning.startswith(place)
    assert message in warning


@pytest.mark.parametrize("text", [SWITCH + DELAYED, PARTITION, "partitions:\n  -\n" + DELAYED.replace("1m", '"0"')])
def test_quota_preemption_with_effect(text: str) -> None:
    """The warning does not come with both the switch and a delay, or with neither."""
    assert load(text).warnings == ()


# ---- the text


def test_empty_text_is_the_default() -> None:
    """CF-1: empty text means the built-in configuration."""
    config = load("")
    assert config.text == DEFAULT_TEXT
    assert config == load(DEFAULT_TEXT)
    assert config.partitions[0].root.submit_acl.everybody


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
    """CF-5: text fields keep the source text, not its YAML value; null is the empty string."""
    text = queue_with("properties: {a: 010, b: yes, c: 12:30, d: 1.50, e: 2024-01-01, f: , g: 'null', h: 0x10}")
    assert queues_of(text)["root.a"].property_map == {
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
    """CF-6, CF-65: the YAML 1.1 words for false; with children listed the queue is a parent all the same."""
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


def test_no_depth_crashes_the_parser() -> None:
    """CF-2: libyaml itself refuses more than 1,000 levels from version 0.2.6 on, and says so in its words."""
    (mistake,) = mistakes_of("[" * 300_000)
    assert (mistake.code, mistake.line) == ("P1", 1)
    assert mistake.column in (257, 1001)


def test_alias_bombs_are_refused() -> None:
    """Aliases of aliases may not grow without bound, neither in width nor in depth (P1)."""
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
    """The parser in Python gives the same configuration without libyaml, byte order mark and wide characters included."""
    monkeypatch.setattr(yamltext, "LOADER", getattr(yaml, loader))
    text = "\ufeff" + queue_with("properties: {ключ: 😀, parent: yes}, submitacl: ' g'").replace("name", "'name'", 1)
    queue = queues_of(text)["root.a"]
    assert queue.property_map == {"ключ": "😀", "parent": "yes"}
    assert queue.submit_acl == AccessList(groups=frozenset("g"))
    assert [(m.line, m.column) for m in mistakes_of(queue_with("properties: {ключ: [😀]}"))] == [(4, 38)]


def test_a_large_file_takes_linear_time() -> None:
    """The time does not grow with the square of the number of queues, neither of parents nor of leaves."""
    leaf = "{name: q%d, maxapplications: 9, properties: {priority.offset: 5}, resources: {max: {vcore: 10, memory: 10Gi}}}"

    def file(parents: int, leaves: int) -> str:
        below = "".join(f"          - {leaf % j}\n" for j in range(leaves))
        return HEAD + "".join(f"      - name: p{i}\n        queues:\n{below}" for i in range(parents))

    assert is_linear(load, lambda count: file(count, 20), 4, repeat=2)
    assert is_linear(load, lambda count: file(2, count), 40, repeat=2)


def test_many_mistakes_are_found_in_linear_time() -> None:
    """The time does not grow with the square of the number of mistakes in one mapping."""

    def wrong(count: int) -> str:
        return queue_with(f"resources: {{max: {{{', '.join(f't{i}: x' for i in range(count))}}}}}")

    assert len(mistakes_of(wrong(2000))) == 2000 + 1  # and there are so many types
    assert is_linear(mistakes_of, wrong, 200, repeat=2)


# ---- normalisation


def test_root_is_inserted() -> None:
    """CF-14, QU-5: without a single root entry the listed queues become children of an inserted root."""
    assert list(queues_of(HEAD + "      - name: a\n      - name: b\n")) == ["root", "root.a", "root.b"]
    assert list(queues_of("partitions: [{queues: []}]")) == ["root"]
    assert load("partitions: [{queues: []}]").partitions[0].root.is_parent


def test_a_single_root_is_the_root() -> None:
    """CF-14, CF-15: one entry named root in any case is the root, in lower case and always a parent."""
    root = load(HEAD + "      - {name: ROOT, parent: false, submitacl: x}\n").partitions[0].root
    assert (root.path, root.is_parent, root.submit_acl.users) == ("root", True, {"x"})


def test_root_beside_others_is_a_child() -> None:
    """CF-14, CF-19: root beside other entries is root.root, and may have resources as it has a parent."""
    queues = queues_of(HEAD + "      - {name: root, resources: {max: {vcore: 1}}}\n      - name: a\n")
    assert queues["root.root"].max == {"vcore": 1000}


def test_root_beside_others_is_a_warning() -> None:
    """CF-84: a queue root beside other queues is allowed, and gives a warning because it is seldom meant."""
    (warning,) = load(HEAD + "      - name: root\n      - name: a\n", "q.yaml").warnings
    assert "a root queue is added above and this queue becomes root.root" in warning


def test_names_are_lower_cased() -> None:
    """CF-16, CF-17, CF-64: paths are lower case; the partition's name keeps its case unless it is ``default``."""
    config = load("partitions:\n  - {name: GPU, queues: [{name: Dev, queues: [{name: A}]}]}\n  - {name: DEFAULT, queues: []}")
    assert list(by_path(config.partitions[0].root)) == ["root", "root.dev", "root.dev.a"]
    assert [partition.name for partition in config.partitions] == ["GPU", "default"]


def test_the_reserved_name_is_free_below_other_queues() -> None:
    """CF-28: only root.@recovery@ is reserved."""
    assert "root.a.@recovery@" in queues_of(queue_with("queues: [{name: '@recovery@'}]"))


# ---- samples


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_samples_load(path: Path) -> None:
    """Every sample in config/ loads without a warning."""
    assert load(path.read_text(), str(path)).warnings == ()


def test_sample_queues() -> None:
    """config/queues.yaml has the settings that its comments describe."""
    partition = load((CONFIG / "queues.yaml").read_text()).partitions[0]
    queues = by_path(partition.root)
    leaves = [path for path, queue in queues.items() if not queue.is_parent]
    assert leaves == ["root.default", "root.teams.analytics", "root.teams.web", "root.batch"]
    assert queues["root.teams.web"].max == {"vcore": 48_000, "memory": 192 * 2**30, "nvidia.com/gpu": 0}
    assert queues["root.teams.web"].properties.sort_policy == "fair"
    assert queues["root.batch"].properties.priority_offset == -100
    assert queues["root.teams.analytics"].submit_acl.users == {"alice", "bob"}
    assert [limit.users for limit in queues["root.batch"].limits] == [("nightly",), ("*",)]
    template = queues["root.namespaces"].child_template
    assert template is not None
    assert (template.max_applications, template.max) == (10, {"vcore": 16_000, "memory": 64 * 2**30})
    assert [rule.name for rule in partition.placement_rules] == ["provided", "tag", "fixed"]
    assert partition.placement_rules[1].filter.users.expression == "^robot-"


def test_sample_priorities() -> None:
    """config/priorities.yaml is the worked example of priorities (PR-76)."""
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
    """config/binpacking.yaml sorts nodes by binpacking, with a weight of four for vcore."""
    policy = load((CONFIG / "binpacking.yaml").read_text()).partitions[0].node_sort_policy
    assert policy == NodeSortPolicy("binpacking", {"vcore": 4.0, "memory": 1.0})
