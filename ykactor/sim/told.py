"""The ends of tasks on copies of partitions, as far as their resource managers have told how long they run at most.

They tell it by the tag ``runSeconds`` of an ask, or of an application for each of its tasks (AP-157). A scheduler decides nothing
by it; copies go on as if each task ran for the whole time.
"""

from __future__ import annotations

from collections.abc import Mapping

from ykactor.core.messages.asks import RUN_SECONDS_TAG, Ask, run_ns
from ykactor.core.messages.facts import Allocated, Fact
from ykactor.core.objects.application import Application
from ykactor.core.values.ids import PartitionName
from ykactor.sim.direct import DirectPartition
from ykactor.wire.scenario.endings import Endings, ask_key


class ToldEnds(Endings):
    """The ends. A message of a scenario with ``runSeconds`` comes before tags.

    Args:
        partitions: the present ones.
    """

    def __init__(self, partitions: Mapping[PartitionName, DirectPartition]) -> None:
        super().__init__()
        self._partitions = partitions

    def resume(self, now_ns: int) -> None:
        """Let the present tasks run since they began. One that should have ended already has no end that is known."""
        for name, partition in self._partitions.items():
            registry = partition.core.registry
            for application_id in registry.applications:
                application = registry.leaf_of(application_id).applications[application_id]
                for key, began_ns in application.tasks.began_ns.items():
                    told_ns = _told_ns(application.tasks.allocations[key][0], application)
                    if told_ns is not None and began_ns + told_ns > now_ns:
                        task = ask_key(name, application_id, key)
                        self.run_for(task, told_ns)
                        self.on_started(task, began_ns)

    def observe(self, partition: PartitionName, fact: Fact) -> None:
        """Take the next fact."""
        if isinstance(fact, Allocated):
            registry, ask = self._partitions[partition].core.registry, fact.ask
            if ask.application_id in registry.applications:
                application = registry.leaf_of(ask.application_id).applications[ask.application_id]
                if (told_ns := _told_ns(ask, application)) is not None:
                    self.run_for(ask_key(partition, ask.application_id, ask.allocation_key), told_ns)
        super().observe(partition, fact)


def _told_ns(ask: Ask, application: Application) -> int | None:
    """The longest run time of a task, in whole microseconds; None if it is not told. Placeholders run until they are replaced."""
    if ask.placeholder:
        return None
    return run_ns(ask.tags.get(RUN_SECONDS_TAG) or application.tags.get(RUN_SECONDS_TAG) or "")
