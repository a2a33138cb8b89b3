import pytest
from queuetexts import HEAD, PARTITION, RA, RB, ROOT, A, R, codes_of, mistakes_of, queue_with, queues_of

from ykactor.core.config.model import NodeSortPolicy, PreemptionSettings
from ykactor.wire.queuefile.load import load

# ---- mistakes: code, line, column, path, and a part of the message

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

#: A longer one, some that would mean none, and one of a template.
WALLTIMES = [
    ("", "", "", 62, "2h", "'2h'"),
    ("", "", "", 62, "''", "nothing"),
    ("", "", "", 62, "soon", "'soon'"),
    ("parent: true, childtemplate: {", "}", "childtemplate.", 92, "2h", "'2h'"),
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
    ("E21", HEAD + f"      - name: {'x' * 65}\n", 4, 15, f"partitions[0].queues[0](root.'{'x' * 60}'...).name", "found 'xxx"),
    ("E21", HEAD + "      - parent: true\n", 4, 9, "partitions[0].queues[0](root.?).name", "found nothing"),
    ("E22", ROOT + "          - name: a\n          - name: A\n", 7, 19, "partitions[0].queues[0].queues[1](root.a).name",
     "the first is in line 6"),
    ("CF-28", ROOT + "          - name: '@Recovery@'\n", 6, 19, "partitions[0].queues[0].queues[0](root.@recovery@).name",
     "reserved"),
    ("E23", queue_with("resources: {max: {vcore: 2GB}}"), 4, 44, f"{A}.resources.max.vcore", "unknown suffix 'GB'"),
    ("E23", queue_with("resources: {guaranteed: {memory: }}"), 4, 44, f"{A}.resources.guaranteed.memory", "found nothing"),
    ("E24", queue_with("resources: {max: {vcore: 1}, guaranteed: {vcore: 2}}"), 4, 68, f"{A}.resources.guaranteed.vcore",
     "found 2 vcore, expected at most 1, the max of the same queue"),
    ("E25", HEAD + "      - name: a\n        resources: {max: {memory: 5}}\n        queues:\n"
     "          - name: b\n            queues: [{name: c, resources: {max: {memory: 6}}}]\n", 8, 58,
     "partitions[0].queues[0].queues[0].queues[0](root.a.b.c).resources.max.memory",
     "found 6 memory, expected at most 5, the max of root.a"),
    ("E26", HEAD + "      - name: a\n        resources: {guaranteed: {gpu: 3}}\n        queues:\n"
     "          - {name: b, resources: {guaranteed: {gpu: 2}}}\n          - {name: c, resources: {guaranteed: {gpu: 2}}}\n",
     5, 39, f"{A}.resources.guaranteed.gpu", "found 4 gpu, expected at most 3, the guarantee of root.a"),
    ("E27", HEAD + "      - name: a\n        resources: {max: {gpu: 3}}\n        queues:\n"
     "          - {name: b, resources: {guaranteed: {gpu: 2}}}\n          - {name: c, resources: {guaranteed: {gpu: 2}}}\n",
     5, 32, f"{A}.resources.max.gpu", "found 4 gpu, expected at most 3, the max of root.a"),
    ("E38", ROOT.replace("root\n", "root\n        maxapplications: 5\n")
     + "          - name: a\n            maxapplications: 6\n", 8, 30, f"{RA}.maxapplications", "found 6, expected at most 5"),
    ("E39", ROOT.replace("root\n", "root\n        maxapplications: 5\n")
     + "          - {name: a, maxapplications: 5}\n          - name: b\n", 8, 13, f"{RB}.maxapplications",
     "found no limit (0), expected 1 to 5"),
    ("E50", queue_with("properties: {application.walltime.max: 1h, application.walltime.default: 2h}"), 4, 92,
     f"{A}.properties.application.walltime.default", "found '2h', expected at most 1h, the application.walltime.max of root.a"),
    *(("E50", ROOT.replace("root\n", "root\n        properties: {application.walltime.max: 90m}\n")
       + f"          - {{name: a, {where}properties: {{application.walltime.max: {value}}}{end}}}\n", 7, column,
       f"{RA}.{path}properties.application.walltime.max", f"found {shown}, expected at most 1h30m, the application.walltime.max")
      for where, end, path, column, value, shown in WALLTIMES),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "line", "column", "path", "part"), NUMBERS + RULES)
def test_single_mistake(code: str, text: str, line: int, column: int, path: str, part: str) -> None:
    """CF-8, CF-74: each mistake has its code, line, column and path, and what was found."""
    found = mistakes_of(text)
    assert [(m.code, m.source, m.line, m.column, m.path) for m in found] == [(code, "q.yaml", line, column, path)]
    assert part in found[0].message


@pytest.mark.parametrize(
    "text",
    [
        "partitions: [{name: a, queues: []}, {name: ab, queues: []}, {queues: []}]",
        HEAD + "      - {name: root, resources: {max: , guaranteed: ~}}\n",
        HEAD + "      - {name: root, resources: }\n",
        HEAD + f"      - name: {'x' * 64}\n",
        HEAD + "      - name: azAZ09_:#/@-\n",
        HEAD + "      - {name: a, queues: [{name: b}]}\n      - {name: c, queues: [{name: b}]}\n",
        HEAD + "      - {name: a, queues: [{name: a}]}\n",
        queue_with("resources: {max: {vcore: ' 25  k ', memory: 1Gi}}"),
        queue_with("resources: {max: {vcore: 1}, guaranteed: {vcore: 1000m, gpu: 9}}"),
        queue_with("resources: {max: {vcore: 1}}, queues: [{name: b, resources: {max: {vcore: 1, gpu: 1}}}]"),
        queue_with("resources: {guaranteed: {vcore: 2}}, queues: [{name: b, resources: {guaranteed: {vcore: 2, gpu: 1}}}]"),
        queue_with("resources: {max: {vcore: 2}}, queues: [{name: b, resources: {guaranteed: {vcore: 2, gpu: 1}}}]"),
        queue_with("maxapplications: 2, queues: [{name: b, maxapplications: 2}, {name: c, maxapplications: 1}]"),
        WEIGHTS % 0,
        WEIGHTS % "1e100",
    ],
)
def test_legal_neighbours(text: str) -> None:
    """Allowed: for example equal amounts, the longest name (CF-20), null on root (CF-42)."""
    assert load(text).warnings == ()


def test_all_mistakes_in_the_order_of_the_stages() -> None:
    """CF-74: text mistakes by place, then per partition structure, queues, resources, node sort, maxapplications."""
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
    """E03 is one mistake: what is written on root is not compared with the queues below it."""
    text = (
        HEAD
        + "      - name: root\n        resources: {max: {vcore: 1}}\n        queues: [{name: a, resources: {max: {vcore: 2}}}]\n"
    )
    assert codes_of(text) == ["E03"]


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
    assert all(m.message.endswith("found 3 vcore, expected at most 2, the max of root.a") for m in found)


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


def test_types_that_are_something_else_are_warnings() -> None:
    """CF-84: cpu is allowed and gives a warning, because it is not the same as vcore."""
    (warning,) = load(queue_with("resources: {max: {cpu: 4}}"), "q.yaml").warnings
    assert warning == (
        f"q.yaml:4:42: {A}.resources.max.cpu: cpu is a resource type of its own, counted in plain units; did you mean vcore?"
    )


@pytest.mark.parametrize(
    ("settings", "place", "found"),
    [
        ("resources: {max: {memory: 8}}", "4:45: {A}.resources.max.memory", "found '8', which is 8 bytes; did you mean 8Gi?"),
        ("resources: {guaranteed: {memory: 64k}}", "4:52: {A}.resources.guaranteed.memory", "64000 bytes; did you mean 64Gi?"),
        ("limits: [{limit: x, users: [a], maxresources: {memory: 1}}]", "4:74: {A}.limits[0].maxresources.memory", "1 byte;"),
        ("parent: true, childtemplate: {resources: {max: {memory: 9}}}", ".childtemplate.resources.max.memory", "9Gi?"),
    ],
)
def test_memory_without_a_unit_is_a_warning(settings: str, place: str, found: str) -> None:
    """CF-84: no queue is for less than 1Mi."""
    (warning,) = load(queue_with(settings), "q.yaml").warnings
    assert place.format(A=A) in warning
    assert found in warning
    assert load(queue_with("resources: {max: {memory: 1Mi}, guaranteed: {memory: 0}}")).warnings == ()


# ---- the partition


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
    """CF-69: an empty type is fair; weights replace the default only if there are any."""
    assert load(PARTITION + f"    nodesortpolicy: {policy}\n").partitions[0].node_sort_policy == expected


@pytest.mark.parametrize(
    ("preemption", "expected"),
    [
        ("", PreemptionSettings()),
        ("{}", PreemptionSettings(enabled=True, quota_enabled=False)),
        ("{enabled: false}", PreemptionSettings(enabled=False)),
        ("{enabled: on, quotapreemptionenabled: yes}", PreemptionSettings(enabled=True, quota_enabled=True)),
    ],
)
def test_preemption(preemption: str, expected: PreemptionSettings) -> None:
    """CF-70: the switches and their defaults."""
    assert load(PARTITION + f"    preemption: {preemption}\n").partitions[0].preemption == expected


def types(first: int, count: int) -> str:
    return "{" + ", ".join(f"t{number}: 1" for number in range(first, first + count)) + "}"


def test_the_number_of_resource_types() -> None:
    """E48: in all quotas, guarantees, templates, limits and weights of a partition together."""
    text = (
        "partitions:\n"
        "  - name: default\n"
        f"    nodesortpolicy: {{resourceweights: {types(0, 50)}}}\n"
        "    queues:\n"
        "      - name: root\n"
        f"        childtemplate: {{resources: {{max: {types(50, 50)}, guaranteed: {types(100, 50)}}}}}\n"
        "        queues:\n"
        f"          - {{name: a, resources: {{max: {types(150, 50)}}}, limits: [{{users: [u], maxresources: {{LAST}}}}]}}\n"
    )
    assert load(text.replace("{LAST}", types(195, 61)))
    (mistake,) = mistakes_of(text.replace("{LAST}", types(195, 62)))
    assert (mistake.code, mistake.path) == ("E48", "partitions[0].queues")
    assert "found 257 resource types, expected at most 256" in mistake.message


@pytest.mark.parametrize("where", ["", "childtemplate: "])
def test_the_number_of_properties(where: str) -> None:
    """E49: of a queue, and of a template."""

    def text(count: int) -> str:
        properties = "properties: {" + ", ".join(f"p{number}: x" for number in range(count)) + "}"
        return queue_with(f"parent: true, {where}{{{properties}}}" if where else properties)

    assert load(text(64))
    (mistake,) = mistakes_of(text(65))
    assert (mistake.code, mistake.path.rpartition(".")[2]) == ("E49", "properties")
    assert mistake.message == "found 65 properties, expected at most 64"
