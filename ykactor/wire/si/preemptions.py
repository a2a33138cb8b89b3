"""An entry of the preemption ledger, as data and as a sentence."""

from __future__ import annotations

from ykactor.core.messages.facts import Preempted
from ykactor.core.messages.reasons import amounts
from ykactor.core.values.resources import saturated
from ykactor.wire.si import messages as si

#: Victims that the sentence names; the entry has all.
_NAMED_MAX = 5


def preemption_entry(fact: Preempted) -> si.Preemption:
    """The complete entry."""
    return si.Preemption(
        node_id=fact.node_id,
        kind=fact.kind,
        why=fact.why,
        victims=[
            si.PreemptionVictim(queue_name=queue, application_id=application_id, allocation_key=key)
            for queue, application_id, key in fact.victims
        ],
        shares_before={path: round(share, 4) for path, share in fact.shares_before.items()},
        shares_after={path: round(share, 4) for path, share in fact.shares_after.items()},
        rejected=[si.Alternative(node_id=node_id, reason=reason) for node_id, reason in fact.rejected],
        work_lost=saturated(fact.work_lost),
    )


def preemption_text(fact: Preempted) -> str:
    """The victims, what allows the preemption, the work lost, the change of shares, and the nodes not chosen."""
    named = ", ".join(f"{key} of {app} in {queue}" for queue, app, key in fact.victims[:_NAMED_MAX])
    more = len(fact.victims) - _NAMED_MAX
    who = f"{named} and {more} more" if more > 0 else named
    shares = ", ".join(f"{path} {share:.2f} to {fact.shares_after[path]:.2f}" for path, share in fact.shares_before.items())
    parts = [
        f"Request '{fact.ask.spec.allocation_key}' preempts {who} on node {fact.node_id}: {fact.why}",
        f"work lost (resources times seconds) {amounts(fact.work_lost)}",
        f"used parts of guarantees {shares}" if shares else "",
        *(f"not {node_id}: {reason}" for node_id, reason in fact.rejected),
    ]
    return "; ".join(filter(None, parts))
