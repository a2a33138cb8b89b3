"""Which leaf an application goes to.

This release knows the rule ``provided`` without ``create`` and the implicit last rule ``root.default`` (PL-2, PL-42).
"""

from __future__ import annotations

from ykactor.core.ids import QueuePath
from ykactor.core.messages import AddApplication
from ykactor.core.quantities import is_queue_name, shown
from ykactor.core.queues import LeafCore
from ykactor.core.roster import Roster
from ykactor.core.states import QueueState

NO_MATCH = "application rejected: no placement rule matched"


def qualified(queue_name: str) -> QueuePath:
    """The path that a submitted name means: below root, and dots are part of an unqualified name (PL-27 to PL-29)."""
    if queue_name.startswith("root."):
        return QueuePath(queue_name.lower())
    return QueuePath("root." + queue_name.replace(".", "_dot_").lower())


def usable_leaf(roster: Roster, path: QueuePath) -> LeafCore | None:
    """The leaf at ``path`` if it takes new applications: neither it nor an ancestor drains (PL-38)."""
    leaf = roster.queues.get(path)
    if not isinstance(leaf, LeafCore):
        return None
    above: str = path
    while above:
        if roster.queues[QueuePath(above)].state is not QueueState.ACTIVE:
            return None
        above = above.rpartition(".")[0]
    return leaf


def place(roster: Roster, application: AddApplication) -> LeafCore | str:
    """The leaf for a new application, or why there is none: an illegal name (PL-5, PL-27), or no rule gives one (PL-40)."""
    leaf = None
    if application.queue_name:
        path = qualified(application.queue_name)
        if not all(is_queue_name(part) for part in path.split(".")):
            return f"application rejected: illegal queue name {shown(application.queue_name)}"
        leaf = usable_leaf(roster, path)
    return leaf or usable_leaf(roster, QueuePath("root.default")) or NO_MATCH
