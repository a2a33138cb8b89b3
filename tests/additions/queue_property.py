"""A property of queues: ``priority.ceiling`` is the highest priority that what is in the queue has outside of it."""

from __future__ import annotations

from additions.applying import Edits, after, before, replaced

EDITS: Edits = {
    "core/config/properties.py": [
        after("priority_offset: int = 0", "    #: ``priority.ceiling``, int32.\n    priority_ceiling: int = 2**31 - 1\n"),
        before(
            '"application.unschedasks.backoff": ',
            """
    "priority.ceiling": Property(
        "priority_ceiling", parse_int32, "a whole number of 32 bits; no ceiling is used"
    ),
""",
        ),
    ],
    "core/queueing/priorities.py": [
        after("return properties.priority_offset if", "    return min(raised, properties.priority_ceiling)\n"),
        replaced("return properties.priority_offset if", "raised = properties.priority_offset if"),
    ],
    "core/inspection/queue_status.py": [
        after("priority_offset: int", "    priority_ceiling: int\n"),
        after('"priority_offset",', '    "priority_ceiling",\n'),
        after("priority_offset=properties.priority_offset,", "        priority_ceiling=properties.priority_ceiling,\n"),
        replaced("request, QueueProperties(", "request, QueueProperties(priority_ceiling=queues[path].priority_ceiling, "),
    ],
    "surfaces/cli/views/queues.py": [
        after('Column("OFFSET", ', '        Column("CEILING", field("priorityCeiling"), is_wide=True, is_number=True),\n'),
    ],
    "surfaces/page/facts.js": [
        after('["Running applications", ', '        ["Priority at most", priority(queue.priorityCeiling)],\n'),
    ],
}


def works() -> None:
    """Managed queues inherit it, a wrong value is told, it decides, and it is shown."""
    from pagetypes import declarations
    from world import app, ask, make_world, node, queue, tree

    from ykactor.surfaces.cli.views.queues import VIEW, rows
    from ykactor.wire import queuefile

    capped = queue("p", queue("a"), p={"priority.ceiling": 5})
    world = make_world(tree(capped, queue("b")), [node("n1", vcore=1)])
    world.given(app("app-1", "root.p.a"), app("app-2", "root.b"), ask("t0", "app-2", vcore=1))
    world.send(ask("t1", "app-1", vcore=1, priority=9), ask("t2", "app-2", vcore=1, priority=7))
    assert world.priorities() == {"root": 7, "root.p": 5, "root.p.a": 5, "root.b": 7}
    assert world.queue("root.p")["priorityCeiling"] == 5
    assert "    priorityCeiling: number;\n" in declarations()
    (column,) = [column for column in VIEW.columns if column.header == "CEILING"]
    assert [column.text(row) for row in rows(world.shown(), 0)] == ["2147483647", "5", "5", "2147483647"]
    wrong = queuefile.load(tree(queue("a", p={"priority.ceiling": "high"})))
    (warning,) = wrong.warnings
    assert warning.endswith("found 'high', expected a whole number of 32 bits; no ceiling is used")
