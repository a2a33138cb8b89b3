"""Two tenants of one cluster: every name of one begins with ``mine``, every name of the other one with ``zq``.

What they want does not depend on what they get, so each can be drawn again beside another neighbour.
"""

from __future__ import annotations

import random

from world import answer, app, ask, foreign, limit, queue, release, remove, tree

from ykactor.core.messages.submissions import Submission

MINE, OTHER = "mine", "zq"
NODES = ("n1", "n2")


def draw_tenant(rng: random.Random, name: str) -> dict[str, object]:
    """A parent with two leaves that compete with each other: quotas, slots, limits and guarantees."""
    limits = [limit(f"{name}user1", applications=1, vcore=rng.choice((1, 2)))] if rng.random() < 0.4 else []
    slots = {"maxapplications": 2}
    taking = queue(f"{name}a", **slots, guaranteed={"vcore": rng.choice((2, 4))}, p={"preemption.delay": "1s"})
    giving = queue(f"{name}b", **slots, max={"vcore": rng.choice((2, 5))}, p={"quota.preemption.delay": "1s"}, limits=limits)
    return queue(name, taking, giving, max={"vcore": rng.choice((5, 7))}, maxapplications=rng.choice((2, 3)))


def draw_tree(mine: random.Random, other: random.Random, **root: object) -> str:
    """A queue file with both; ``root`` holds keys of root."""
    tenants = draw_tenant(mine, MINE), draw_tenant(other, OTHER)
    return tree(*tenants, preemption={"enabled": True, "quotapreemptionenabled": True}, **root)


class Tenant:
    """Says something new with each ``draw``, about its own objects only."""

    def __init__(self, seed: int, name: str) -> None:
        self.rng = random.Random(f"{name}{seed}")
        self.name = name
        self.applications = [f"{name}app{number}" for number in range(4)]
        self._number = 0
        self._keys: list[tuple[str, str]] = []

    def opening(self) -> list[Submission]:
        return [self._application(application) for application in self.applications]

    def draw(self) -> list[Submission]:
        draws = (self._ask, self._ask, self._ask, self._placeholder, self._release, self._application, self._forget)
        return [draw() for draw in self.rng.choices(draws, k=self.rng.randint(0, 4))]

    def answers(self, node_id: str) -> list[Submission]:
        """Sometimes an answer of the resource manager about its asks that have a predicate class."""
        if self.rng.random() >= 0.2:
            return []
        uses, no = self.rng.choice(((None, ""), (2, ""), (None, "full"), (None, "full")))
        return answer(f"{self.name}class", node_id, no=no, uses=uses)

    def leaf(self) -> str:
        return f"root.{self.name}.{self.name}{self.rng.choice('ab')}"

    def _application(self, application: str = "") -> Submission:
        user = f"{self.name}user{self.rng.randint(1, 2)}"
        name = application or self.rng.choice(self.applications)
        return app(name, self.leaf(), user=user, groups=(f"{self.name}group",), timeout_ms=self.rng.choice((0, 5000)))

    def _new_key(self) -> tuple[str, str]:
        self._number += 1
        self._keys.append((f"{self.name}t{self._number}", self.rng.choice(self.applications)))
        return self._keys[-1]

    def _ask(self) -> Submission:
        rng, predicate = self.rng, self.rng.choice(("", "", f"{self.name}class"))
        size, priority = rng.choice((1, 2, 3)), rng.choice((0, 0, 5))
        return ask(*self._new_key(), vcore=size, priority=priority, predicate=predicate, preempt_other=rng.random() < 0.7)

    def _placeholder(self) -> Submission:
        return ask(*self._new_key(), group=f"{self.name}gang", placeholder=self.rng.random() < 0.5, vcore=1)

    def _release(self) -> Submission:
        return release(*self.rng.choice(self._keys[-9:] or [("none", "none")]))

    def _forget(self) -> Submission:
        return remove(self.rng.choice(self.applications)) if self.rng.random() < 0.2 else self._ask()


def others_business(rng: random.Random) -> list[Submission]:
    """Submissions that name the other tenant beside its own objects: foreign tasks, refusals, applications of a taken name."""
    node = rng.choice(NODES)
    return [
        *([foreign(f"{OTHER}foreign{rng.randint(1, 3)}", node, vcore=1)] if rng.random() < 0.3 else []),
        *(answer(f"{MINE}class", node, no=f"{OTHER} has it" if rng.random() < 0.6 else "") if rng.random() < 0.3 else []),
        *([app(f"{MINE}app0", f"root.{OTHER}.{OTHER}a", user=f"{MINE}user1")] if rng.random() < 0.2 else []),
        *([app(f"{OTHER}app9", f"root.{MINE}.{OTHER}none", user=f"{OTHER}user1")] if rng.random() < 0.2 else []),
    ]
