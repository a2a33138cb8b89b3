"""A placement rule: ``group`` takes the queue with the name of the first group of the user."""

from __future__ import annotations

from additions.applying import Edits, after

EDITS: Edits = {
    "core/placement/rules.py": [
        after(
            '"user": RuleKind(',
            """
    "group": RuleKind(
        lambda rule, applicant: next(iter(applicant.who.groups), ""), "the user has no group", is_path=False
    ),
""",
        ),
    ],
}


def works() -> None:
    """The queue file knows it, also with a parent rule, as does its schema; it decides, and says why it does not."""
    from world import app, make_world, queue, tree

    from ykactor.wire import queuefile
    from ykactor.wire.queuefile.schema import json_schema

    rules = [{"name": "Group", "create": True, "parent": {"name": "fixed", "value": "teams"}}]
    text = tree(queue("teams", parent=True), placementrules=rules)
    assert queuefile.load(text).partitions[0].placement_rules[0].name == "group"
    assert "group" in json_schema()["$defs"]["RuleText"]["properties"]["name"]["examples"]
    world = make_world(text)
    world.given(app("app-1", "", groups=("dev.core", "ops")))
    assert world.state()["applications"]["app-1"]["queueName"] == "root.teams.dev_dot_core"
