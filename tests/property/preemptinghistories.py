"""Gangs and other applications on a full cluster: they preempt for guarantees and quotas, and reserve nodes."""

import random

from ganghistories import NODES, ResourceManager
from world import ask, configure, queue, tree

from ykactor.core.messages.submissions import Submission


def draw_text(rng: random.Random) -> str:
    """A queue file: one leaf gives for its quota, the other one takes for its guarantee; both soon."""
    giving = queue("a", max={"vcore": rng.choice((3, 30))}, p={"quota.preemption.delay": "1s"})
    taking = queue("b", guaranteed={"vcore": rng.choice((12, 24))}, p={"preemption.delay": "1s"})
    return tree(giving, taking, preemption={"enabled": True, "quotapreemptionenabled": True})


class Preempting(ResourceManager):
    """A resource manager as in ``ganghistories``, whose tasks are larger, preempt, and sometimes need a certain node."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, draw=draw_text)

    def draw(self) -> list[Submission]:
        """Draw the next submissions, sometimes with a change of quotas and guarantees."""
        return [*super().draw(), *([configure(draw_text(self.rng))] if self.rng.random() < 0.1 else [])]

    def _real(self, on: str | None = None) -> Submission:
        name, key = self._key("t")
        size, group = self.rng.choice((1, 2, 3, 5)), self.rng.choice(("", "", "x", "y"))
        needs = self.rng.choice(NODES) if self.rng.random() < 0.1 else None
        priority = self.rng.choice((0, 0, 5))
        ends = on is not None and int(key[1:]) % 5 == 0  # not from the generator: what else is drawn stays the same
        flags = {"requires": needs, "preempt_other": True, "releasing": ends}
        return ask(key, name, group=group, vcore=size, priority=priority, on=on, **flags)  # type: ignore[arg-type]
