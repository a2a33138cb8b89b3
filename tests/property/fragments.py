"""Histories of fragmented clusters: much is free, but no node has room for what waits, so that nodes are reserved all the time.

Asks are large against small nodes; seconds pass, sometimes an hour; nodes are drained, resized and removed; some asks require a
node; and what waits is cancelled, resized, or placed by the resource manager itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import cast

from histories import Batch, Drawer, History
from msgspec import structs

from ykactor.core.config.model import Limit
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.submissions import AddApplication, ReleaseAllocations, Submission

REQUIRED = ("kubernetes.io/meta/requiredNode", "yunikorn.apache.org/requiredNode")


def draw_fragments(seed: int, batches: int = 40) -> History:
    """The same seed gives the same history."""
    rng = random.Random(seed)
    drawer = Fragments(rng, rng.choice((("fifo",), ("fifo", "fair", "stateaware"))))
    drawer.has_gangs = seed % 2 == 1
    config = drawer.draw_config()
    opening = [drawer.create_node() for _ in range(6)] + [drawer.add_application() for _ in range(8)]
    opening += [drawer.recovered() for _ in range(4)]
    return History(config, [Batch(0, opening), *drawer.draw_batches(0, batches, reloads=1)])


class Fragments(Drawer):
    """Draws so that reservations are made, kept, used and lost."""

    gaps_s, gap_weights = (0.0, 0.5, 1.0, 2.0, 3.0, 31.0, 3600.0), (20, 15, 20, 15, 10, 3, 6)
    batch_max = 3
    has_gangs = False

    def draw_bounds(self, chance: float, values: tuple[int, ...]) -> dict[str, int] | None:
        """Seldom in the way, and then because others use it."""
        return super().draw_bounds(chance / 2, tuple(3 * value for value in values))

    def draw_limits(self) -> tuple[Limit, ...]:
        return super().draw_limits() if self.rng.random() < 0.2 else ()

    def draw_submission(self, reloads: float) -> Submission:
        kinds: tuple[tuple[Callable[[], Submission], int | float], ...] = (
            (self.ask, 40),
            (self.required, 8),
            (self.resized, 6),
            (self.placed, 6),
            (self.recovered, 2),
            (self.foreign, 4),
            (self.release, 16),
            (self.add_application, 6),
            (self.remove_application, 2),
            (self.create_node, 6),
            (self.change_node, 10),
            (self.reload, reloads),
        )
        draws, weights = zip(*kinds, strict=True)
        return self.rng.choices(draws, weights)[0]()

    def resource(self) -> dict[str, int]:
        draws = ({"vcore": 3}, {"vcore": 4}, {"vcore": 5}, {"vcore": 5, "memory": 3}, {"memory": 5}, {"vcore": 8, "gpu": 0})
        seldom = ({"vcore": 1}, {"vcore": 2, "memory": 1}, {"vcore": 3, "gpu": 1}, {"vcore": 50}, {"fpga": 1})
        return dict(self.rng.choice(draws if self.rng.random() < 0.75 else seldom))

    def capacity(self) -> dict[str, int]:
        capacity = {"vcore": self.rng.choice((4, 6, 8, 8)), "memory": self.rng.choice((4, 8))}
        return capacity | {"gpu": 1} if self.rng.random() < 0.3 else capacity

    def tags(self) -> dict[str, str]:
        """Some were created long ago, some will be."""
        return {"creationTime": str(self.rng.choice((0, 1, 100, 10_000)))} if self.rng.random() < 0.15 else {}

    def add_application(self) -> Submission:
        """Nearly always into a leaf that is there."""
        application = cast("AddApplication", super().add_application())
        if self.leaves and self.rng.random() < 0.9:
            application = structs.replace(application, queue_name=self.rng.choice(self.leaves))
        if not self.has_gangs or self.rng.random() < 0.4:
            return application
        total, style = {"vcore": self.rng.choice((4, 8, 12))}, self.rng.choice(("Soft", "Soft", "Hard"))
        return structs.replace(application, placeholder_ask=total, gang_scheduling_style=style)

    def ask(self) -> Submission:
        """An ask; in half of the histories many belong to task groups."""
        ask = cast("Ask", super().ask())
        if not self.has_gangs or self.rng.random() < 0.3:
            return ask
        group, is_placeholder = self.rng.choice(("g", "g", "h")), self.rng.random() < 0.5
        size = {"vcore": self.rng.choice((3, 4, 4, 5))}
        return structs.replace(ask, resource=size, task_group_name=group, placeholder=is_placeholder)

    def required(self) -> Submission:
        (application_id, key), tags = self.name(), {self.rng.choice(REQUIRED): self.node_id()}
        return Ask(key, application_id, self.resource(), self.rng.choice((0, 1, 9)), None, tags)

    def resized(self) -> Submission:
        """A known key with another size."""
        application_id, key = self.recent() if self.submitted else self.name()
        return Ask(key, application_id, self.resource())

    def placed(self) -> Submission:
        """A known key runs already, says the resource manager."""
        application_id, key = self.recent() if self.submitted else self.name()
        return Ask(key, application_id, self.resource(), 0, self.node_id())

    def release(self) -> Submission:
        if not self.submitted:
            return super().release()
        return ReleaseAllocations(*self.recent(), TerminationType.STOPPED_BY_RM)
