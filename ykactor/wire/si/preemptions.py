"""An entry of the ledger of preemptions for programs, and in words for people."""

from __future__ import annotations

from ykactor.core.messages.facts import Preempted
from ykactor.core.values.resources import saturated, text
from ykactor.wire.si import messages as si

#: Victims that the words name; all are in the entry.
_NAMED_MAX = 5


def preemption_entry(it: Preempted) -> si.Preemption:
    """All of it."""
    return si.Preemption(
        node_id=it.node_id,
        why=it.why,
        victims=[si.PreemptionVictim(queue_name=queue, application_id=app, allocation_key=key) for queue, app, key in it.victims],
        shares_before={path: round(share, 4) for path, share in it.shares_before.items()},
        shares_after={path: round(share, 4) for path, share in it.shares_after.items()},
        rejected=[si.Alternative(node_id=node_id, reason=reason) for node_id, reason in it.rejected],
        work_lost=saturated(it.work_lost),
    )


def preemption_text(it: Preempted) -> str:
    """Who goes for whom, which law allows it, what is lost, how shares change, and which nodes were not chosen."""
    named = ", ".join(f"{key} of {app} in {queue}" for queue, app, key in it.victims[:_NAMED_MAX])
    more = len(it.victims) - _NAMED_MAX
    who = f"{named} and {more} more" if more > 0 else named
    shares = ", ".join(f"{path} {share:.2f} to {it.shares_after[path]:.2f}" for path, share in it.shares_before.items())
    parts = [
        f"Request '{it.ask.spec.allocation_key}' preempts {who} on node {it.node_id}: {it.why}",
        f"work lost in unit-seconds {text(it.work_lost)}",
        f"used parts of guarantees {shares}" if shares else "",
        *(f"not {node_id}: {reason}" for node_id, reason in it.rejected),
    ]
    return "; ".join(filter(None, parts))
