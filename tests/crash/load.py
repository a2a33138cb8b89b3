"""The load of one partition: random requests of all kinds, for what the ledger knows to be there."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ledger import HANDED_BACK, STOPPED, Application, Known, Ledger, Node, Task

from ykactor.wire.si import messages as si

LEAVES = ("root.a", "root.b", "root.g", "root.extra")
NODES, APPLICATIONS = 4, 8
TASKS_MAX = 60
#: The entries of a request that takes several turns.
LARGE = 6000
Request = tuple[Any, list[Known], list[Known]]


def config(variant: int) -> str:
    """A configuration: variants differ in a quota, and in a queue and a partition that come and go."""
    spare = "  - name: spare\n    queues: [{name: root, submitacl: '*'}]\n" if variant % 3 == 2 else ""
    return "partitions:\n" + "".join(_partition(name, variant) for name in PARTITIONS) + spare


def _partition(name: str, variant: int) -> str:
    extra = "          - {name: extra}\n" if variant % 2 == 0 else ""
    quota = (14, 6, 10, 4)[variant % 4]
    return f"""\
  - name: {name}
    preemption: {{enabled: true, quotapreemptionenabled: true}}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {{name: a, resources: {{guaranteed: {{vcore: 12}}}}, properties: {{preemption.delay: 20ms}}}}
          - {{name: b, resources: {{max: {{vcore: {quota}}}}}, properties: {{quota.preemption.delay: 20ms}}}}
          - {{name: g}}
{extra}"""


PARTITIONS = ("default", "east")


class Load:
    """Draws the requests of one partition."""

    def __init__(self, partition: str, ledger: Ledger, rng: random.Random, names: Callable[[], int]) -> None:
        self._partition = partition
        self._ledger = ledger
        self._rng = rng
        self._names = names

    def draw(self) -> Request:
        """The next request, with what it makes and what it ends."""
        if len(self._nodes()) < NODES:
            return self.nodes()
        if len(self._live()) < APPLICATIONS:
            return self.applications()
        steps = {
            self.confirm: 8,
            self.asks: 8,
            self.release: 5,
            self.hand_back: 4,
            self.move: 2,
            self.remove: 1,
            self.terminate: 1,
            self.release_application: 1,
            self.change_node: 2,
            self.decommission: 1,
        }
        (step,) = self._rng.choices(list(steps), list(steps.values()))
        return step()

    # ---- what is there

    @property
    def has_applications(self) -> bool:
        """True if there is an application that may have tasks."""
        return bool(self._live())

    def _nodes(self) -> list[Node]:
        return [known for known in self._ledger.nodes.values() if self._is_ours(known)]

    def _live(self) -> list[Application]:
        return [known for known in self._ledger.applications.values() if self._is_ours(known)]

    def _tasks(self) -> list[Task]:
        return [task for application in self._live() for task in application.tasks if not task.may_be_gone]

    def _is_ours(self, known: Known) -> bool:
        return known.partition == self._partition and not known.may_be_gone

    # ---- nodes

    def nodes(self) -> Request:
        """New nodes."""
        made = [Node(self._partition, f"n{self._names()}") for _ in range(2)]
        self._ledger.nodes.update((node.node_id, node) for node in made)
        return si.NodeRequest(nodes=[self._node(node, "CREATE", vcore="8") for node in made]), [*made], []

    def _node(self, node: Node, action: str, **capacity: str) -> si.NodeInfo:
        here = {"si/node-partition": self._partition}
        return si.NodeInfo(node_id=node.node_id, action=action, attributes=here, schedulable_resource={**capacity} or None)

    def change_node(self) -> Request:
        """A drain, or its end."""
        action = self._rng.choice(["DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DRAIN_TO_SCHEDULABLE"])
        return si.NodeRequest(nodes=[self._node(self._rng.choice(self._nodes()), action)]), [], []

    def decommission(self) -> Request:
        """A node goes."""
        node = self._rng.choice(self._nodes())
        return si.NodeRequest(nodes=[self._node(node, "DECOMISSION")]), [], [node]

    # ---- applications

    def applications(self) -> Request:
        """A new application; a third of them are gangs, whose placeholders time out soon."""
        is_gang = self._rng.random() < 0.34
        made = Application(self._partition, f"app-{self._names()}", is_gang)
        self._ledger.applications[made.application_id] = made
        entry = si.AddApplicationRequest(
            application_id=made.application_id,
            partition_name=self._partition,
            queue_name="root.g" if is_gang else self._rng.choice(LEAVES),
            ugi=si.UserGroupInformation(user=self._rng.choice(("alice", "bob"))),
            placeholder_ask={"vcore": "3"} if is_gang else None,
            execution_timeout_milli_seconds=self._rng.choice((300, 60_000)) if is_gang else 0,
            gang_scheduling_style=self._rng.choice(("Soft", "Hard")) if is_gang else "",
        )
        return si.ApplicationRequest(new=[entry]), [made], []

    def remove(self) -> Request:
        """An application goes with all its tasks."""
        gone = self._rng.choice(self._live())
        entry = si.RemoveApplicationRequest(application_id=gone.application_id, partition_name=self._partition)
        return si.ApplicationRequest(remove=[entry]), [], [gone, *gone.tasks]

    def terminate(self) -> Request:
        """An application fails."""
        gone = self._rng.choice(self._live())
        wanted = si.TerminateApplication(application_id=gone.application_id, partition_name=self._partition)
        return wanted, [], [gone]

    def move(self) -> Request:
        """An application moves to another queue."""
        moved, target = self._rng.choice(self._live()), self._rng.choice(LEAVES)
        name = self._partition
        return si.MoveApplication(application_id=moved.application_id, queue_name=target, partition_name=name), [], []

    # ---- tasks

    def asks(self, count: int = 0) -> Request:
        """Asks; for a gang first placeholders, then real ones in their places."""
        if not count and len(self._tasks()) > TASKS_MAX:
            return self.release()
        application = self._rng.choice(self._live())
        is_placeholder = application.is_gang and not application.tasks
        count = 3 if is_placeholder else count or self._rng.randint(1, 6)
        made = [Task(self._partition, application.application_id, f"t{self._names()}", is_placeholder) for _ in range(count)]
        application.tasks += made
        self._ledger.tasks.update((task.key, task) for task in made)
        return si.AllocationRequest(allocations=[self._ask(task, application) for task in made]), [*made], []

    def _ask(self, task: Task, application: Application) -> si.Allocation:
        return si.Allocation(
            allocation_key=task.key,
            application_id=task.application,
            partition_name=self._partition,
            resource_per_alloc={"vcore": "1"},
            priority=self._rng.randint(0, 3),
            task_group_name="group" if application.is_gang else "",
            placeholder=task.is_placeholder,
            allocation_tags={"ykactor.io/predicate": "checked"} if self._rng.random() < 0.1 else {},
            preemption_policy=si.PreemptionPolicy(allow_preempt_other=True),
        )

    def release(self, share: float = 0.2) -> Request:
        """A share of the tasks ends, pending or running."""
        tasks = self._tasks()
        return self._releases(self._rng.sample(tasks, round(share * len(tasks))), STOPPED)

    def hand_back(self) -> Request:
        """Some tasks that run could not start; a few are handed back twice, and a few may have been handed back before."""
        running = [task for task in self._tasks() if task.node_id]
        chosen = self._rng.choices(running, k=3) if running else []
        return (self._releases(chosen, HANDED_BACK)[0], [], []) if chosen else self.asks()

    def confirm(self) -> Request:
        """The releases end that the daemon has started; its types are confirmed by any type."""
        tasks = [task for task in self._ledger.leaving if task.partition == self._partition and not task.may_be_gone]
        return self._releases(tasks, "PLACEHOLDER_REPLACED") if tasks else self.asks()

    def release_application(self) -> Request:
        """All tasks of an application end."""
        application = self._rng.choice(self._live())
        return self._releases([Task(self._partition, application.application_id, "")], STOPPED)[0], [], [*application.tasks]

    def _releases(self, tasks: list[Task], kind: str) -> Request:
        entries = [
            si.AllocationRelease(
                application_id=task.application,
                allocation_key=task.key,
                partition_name=self._partition,
                termination_type=kind if task.is_placeholder or kind in (STOPPED, HANDED_BACK) else "PREEMPTED_BY_SCHEDULER",
                node_id=task.node_id if kind == HANDED_BACK else "",
            )
            for task in tasks
        ]
        return si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=entries)), [], [*tasks]
