"""Child templates in queue files (CF-67, QU-14 to QU-17)."""

import pytest
from queuetexts import HEAD, A, assert_mistake, queues_of

from ykactor.core.config.model import ChildTemplate
from ykactor.wire.queuefile.load import load


def tree(root: str, parent: str, leaf: str = "") -> str:
    """root, root.a and root.a.b below it (all parents) and the leaf root.a.c, with templates in flow style or ""."""
    text = "partitions:\n  - queues:\n      - name: root\n"
    for indent, name, template in (("        ", "a", root), ("            ", "b", parent)):
        text += f"{indent}childtemplate: {template}\n" * bool(template) + f"{indent}queues:\n{indent}  - name: {name}\n"
    text += "                parent: true\n              - name: c\n"
    return text + f"                childtemplate: {leaf}\n" * bool(leaf)


def test_template() -> None:
    """CF-67, CF-31: all settings of a template arrive in the configuration, in base units."""
    text = tree("{maxapplications: 10, properties: {a: b}, resources: {max: {vcore: 2, gpu: 0}, guaranteed: {memory: 1k}}}", "")
    expected = ChildTemplate(10, {"a": "b"}, {"vcore": 2000, "gpu": 0}, {"memory": 1000})
    assert queues_of(text)["root"].child_template == expected


def test_the_nearest_template_counts_as_a_whole() -> None:
    """QU-15, with its example: templates are not merged; leaves have none."""
    queues = queues_of(tree("{maxapplications: 10, resources: {max: {vcore: 20}}}", "{resources: {max: {vcore: 21}}}"))
    assert queues["root"].child_template == ChildTemplate(10, {}, {"vcore": 20_000})
    assert queues["root.a"].child_template == queues["root.a.b"].child_template == ChildTemplate(0, {}, {"vcore": 21_000})
    assert queues["root.a.c"].child_template is None


@pytest.mark.parametrize(
    "own",
    ["", "{}", "{maxapplications: 0}", "{properties: {}, resources: {}}", "{resources: {max: {}, guaranteed: }}",
     "{properties: {a: , '': b}}", "{resources: {max: {vcore: ''}}}"],
)  # fmt: skip
def test_absent_templates(own: str) -> None:
    """CF-13: an empty template counts as absent, so the template of the ancestor applies."""
    queues = queues_of(tree("{maxapplications: 7}", own))
    assert queues["root.a"].child_template == ChildTemplate(7)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("{properties: {a: b, c: , '': d}}", ChildTemplate(0, {"a": "b"})),
        ("{resources: {max: {gpu: 0}}}", ChildTemplate(0, {}, {"gpu": 0})),
        ("{resources: {guaranteed: {gpu: 0}}}", ChildTemplate()),
        ("{resources: {guaranteed: {gpu: 0, vcore: 1}}}", ChildTemplate(0, {}, None, {"gpu": 0, "vcore": 1000})),
    ],
)
def test_what_a_template_keeps(own: str, expected: ChildTemplate) -> None:
    """CF-13, QU-16: empty properties are ignored; zeros count in max, and in a guarantee with a positive quantity."""
    assert queues_of(tree("{maxapplications: 7}", own))["root.a"].child_template == expected


def test_templates_are_not_inherited_properties() -> None:
    """CF-37: a template does not inherit the properties of the queue."""
    text = HEAD + "      - {name: a, properties: {x: y}, parent: true, childtemplate: {maxapplications: 1}}\n"
    assert queues_of(text)["root.a"].child_template == ChildTemplate(1)


@pytest.mark.parametrize("kind", ["max", "guaranteed"])
def test_bad_quantities(kind: str) -> None:
    """CF-31: the quantities of a template are checked with those of queues (E23)."""
    text = HEAD + f"      - {{name: a, parent: true, childtemplate: {{resources: {{{kind}: {{vcore: 1, gpu: §-1}}}}}}}}\n"
    assert_mistake(text, "E23", f"{A}.childtemplate.resources.{kind}.gpu", "found '-1'")


def test_a_template_of_a_leaf_is_ignored() -> None:
    """CF-67: a template of a leaf is not checked, and gives a warning."""
    text = tree("", "", "{properties: {priority.offset: x}, resources: {max: {vcore: y}}}")
    (warning,) = load(text, "q.yaml").warnings
    assert "(root.a.c).childtemplate: a template has no effect on a leaf; write parent: true" in warning


def test_property_values_are_warnings() -> None:
    """CF-73: a bad property value in a template is the default and a warning, as in a queue."""
    text = HEAD + "      - {name: a, parent: true, childtemplate: {properties: {priority.offset: x}}}\n"
    (warning,) = load(text, "q.yaml").warnings
    assert warning.startswith(f"q.yaml:4:79: {A}.childtemplate.properties.priority.offset: found 'x', expected a whole number")


def test_a_template_is_compared_with_nothing() -> None:
    """CF-67: the resources of a template may be larger than those of the parent."""
    text = HEAD + "      - {name: a, parent: true, resources: {max: {vcore: 1}}, childtemplate: {resources: {max: {vcore: 9}}}}\n"
    assert queues_of(text)["root.a"].child_template == ChildTemplate(0, {}, {"vcore": 9000})
