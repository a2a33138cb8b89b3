"""The admission of an application to a partition: its user, its queue, and what is created for it (AP-18 to AP-24, PL-45).

One ``Admission`` serves one round of submissions. It adds to the registry at once, so that the next application of the round
finds a queue that this one created, and collects the commands that owners must get before the applications (QU-98).
"""

from __future__ import annotations

from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import QueueConfig
from ykactor.core.config.properties import SORT_POLICIES
from ykactor.core.messages.asks import RUN_SECONDS_GRANTED_TAG, RUN_SECONDS_TAG, run_ns
from ykactor.core.messages.facts import ApplicationRejected, Fact, QueueAdded
from ykactor.core.messages.kinds import Rejection, RejectionCode
from ykactor.core.messages.states import QueueState
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects.commands import Admitted, Adopt, Configure
from ykactor.core.objects.holdings import Holdings
from ykactor.core.objects.queues import LeafCore, ParentCore
from ykactor.core.objects.registry import Registry, Send
from ykactor.core.placement.dynamic import limit_changes, missing, with_quotas
from ykactor.core.placement.rules import Applicant, Placed, place
from ykactor.core.placement.users import Users
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.parts import Steps
from ykactor.core.values.quantities import duration_text
from ykactor.core.values.resources import Resource, min_union, strictly_positive, text

#: A queue takes as long to create as so many items.
_QUEUE_ITEMS = 6


def gang_objection(application_id: ApplicationID, wanted: Resource, path_up: list[QueueConfig]) -> Rejection | None:
    """The reason why a leaf cannot take a gang of this size, or None (AP-18, AP-19).

    ``path_up`` has the leaf first; root, which has no max, may be left out.
    """
    leaf = path_up[0]
    if not SORT_POLICIES[leaf.properties.sort_policy].takes_gangs:
        reason = f"queue {leaf.path} cannot run application {application_id} with task group request: unsupported sort type"
        return Rejection(RejectionCode.SORT_POLICY, reason)
    ceiling: Resource | None = None
    for queue in path_up:
        ceiling = min_union(ceiling, queue.max)
    if ceiling is not None and any(quantity > ceiling.get(name, quantity) for name, quantity in wanted.items()):
        reason = f"task group request {text(wanted)} larger than max queue allocation {text(ceiling)}"
        return Rejection(RejectionCode.QUOTA, f"queue {leaf.path} cannot fit application {application_id}: {reason}")
    return None


class Admission:
    """Admits the applications of one round."""

    def __init__(self, registry: Registry, users: Users, holdings: Holdings) -> None:
        self._partition = registry.config.name
        self._registry = registry
        self._users = users
        self._holdings = holdings
        self._adopted: dict[ParentCore, list[QueuePath]] = {}
        self._quotas: dict[LeafCore, QueueConfig] = {}

    def admit(self, now_ns: int, spec: AddApplication) -> Steps[tuple[LeafCore, Admitted, list[Fact]] | ApplicationRejected]:
        """Admit an application. Returns its leaf, what it gets, and the facts about queues created for it; or the refusal."""
        who = self._users.resolve(now_ns, spec)
        if isinstance(who, str):
            return ApplicationRejected(now_ns, spec.application_id, who, RejectionCode.BAD_USER)
        placed = yield from self._place(spec, who)
        if isinstance(placed, Rejection):
            return ApplicationRejected(now_ns, spec.application_id, placed.reason, placed.code)
        facts: list[Fact] = []
        leaf = self._create(now_ns, placed.path, spec.tags, facts) if placed.creates else self._registry.leaf(placed.path)
        yield _QUEUE_ITEMS * len(facts)
        self._set_quotas(now_ns, leaf, spec.tags, facts)
        self._registry.applications[spec.application_id] = leaf.path
        return leaf, Admitted(spec, who), facts

    def _place(self, spec: AddApplication, who: UserGroups) -> Steps[Placed | Rejection]:
        name = spec.application_id
        if name in self._registry.applications:
            taken = f"adding application {name} to partition {self._partition}, but application already existed"
            return Rejection(RejectionCode.DUPLICATE, taken)
        applicant = Applicant(spec, who)
        yield from applicant.rest()
        placed = yield from place(self._registry, applicant)
        if isinstance(placed, Rejection):
            return Rejection(placed.code, f"failed to place application {name}: {placed.reason}")
        if placed.creates:
            reason = self._holdings.refusal("queues", len(missing(self._registry.queues, placed.path)))
            if reason:
                return Rejection(RejectionCode.LIMIT, f"failed to place application {name}: {reason}")
        objection = self._gang_objection(spec, placed) if strictly_positive(spec.placeholder_ask) else None
        if objection is None and RUN_SECONDS_TAG in spec.tags and RUN_SECONDS_GRANTED_TAG not in spec.tags:
            objection = self._walltime_objection(spec, placed)
        return objection or placed

    def _walltime_objection(self, spec: AddApplication, placed: Placed) -> Rejection | None:
        """The reason why the queue takes no application whose tasks may run for so long, or None (AP-158)."""
        config = missing(self._registry.queues, placed.path)[-1] if placed.creates else self._registry.leaf(placed.path).config
        wanted_ns, longest_ns = run_ns(spec.tags[RUN_SECONDS_TAG]) or 0, config.properties.walltime_max_ns
        if not 0 < longest_ns < wanted_ns:
            return None
        reason = f"its tasks run for {duration_text(wanted_ns)}, queue {config.path} allows at most {duration_text(longest_ns)}"
        return Rejection(RejectionCode.WALLTIME, f"failed to place application {spec.application_id}: {reason}")

    def _gang_objection(self, spec: AddApplication, placed: Placed) -> Rejection | None:
        """The reason why the queue, with its settings after this admission, cannot take the gang, or None."""
        if placed.creates:
            created = missing(self._registry.queues, placed.path)
            config, first = created[-1], created[0].path
        else:
            leaf = self._registry.leaf(placed.path)
            config, first = self._quotas.get(leaf, leaf.config), leaf.path
        above = self._registry.lineage(QueuePath(first.rpartition(".")[0]))
        path_up = [with_quotas(config, spec.tags), *(queue.config for queue in above)]
        return gang_objection(spec.application_id, spec.placeholder_ask or {}, path_up)

    def _create(self, now_ns: int, path: QueuePath, tags: dict[str, str], facts: list[Fact]) -> LeafCore:
        """Create the leaf at ``path`` and every queue that is missing above it (QU-10)."""
        for config in missing(self._registry.queues, path):
            above = self._registry.queues[QueuePath(config.path.rpartition(".")[0])]
            assert isinstance(above, ParentCore), "placement lets nothing be created below a leaf"
            self._adopted.setdefault(above, []).append(config.path)
            settings = config if config.is_parent else with_quotas(config, tags)
            books = self._registry.books
            queue = ParentCore(settings, books.changed) if config.is_parent else LeafCore(settings, books)
            self._registry.add_queue(queue)
            facts.append(QueueAdded(now_ns, config.path, managed=False))
            facts += limit_changes(None, settings, now_ns)
        return self._registry.leaf(path)

    def _set_quotas(self, now_ns: int, leaf: LeafCore, tags: dict[str, str], facts: list[Fact]) -> None:
        """Set the quotas in the tags of an application on its dynamic leaf; the last application wins (QU-100)."""
        before = self._quotas.get(leaf, leaf.config)
        after = with_quotas(before, tags)
        if after is not before:
            self._quotas[leaf] = after
            facts += limit_changes(before, after, now_ns)

    def sends(self) -> list[Send[None]]:
        """The commands that owners must get before the applications."""
        adoptions: list[Send[None]] = [(parent, Adopt(tuple(children))) for parent, children in self._adopted.items()]
        return adoptions + [(leaf, Configure(config, QueueState.ACTIVE)) for leaf, config in self._quotas.items()]
