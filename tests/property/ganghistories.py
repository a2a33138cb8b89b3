"""Gangs with a resource manager that answers late, in another order, twice, otherwise or never.

What it says depends on what it hears. The same seed and the same decisions give the same history.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from world import app, ask, configure, limit, node, queue, release, remove, tree

from ykactor.core.messages.facts import Fact, ReleaseStarted
from ykactor.core.messages.submissions import Submission

S_NS = 10**9
APPLICATIONS, LEAVES, NODES, GROUPS = ("g1", "g2", "g3", "o1"), ("a", "b"), ("n1", "n2", "n3"), ("x", "y")
TERMINATIONS = ("STOPPED_BY_RM", "TIMEOUT", "PLACEHOLDER_REPLACED", "PREEMPTED_BY_SCHEDULER", "UNKNOWN_TERMINATION_TYPE")
#: At once or soon; sometimes past the timers of placeholders, Completing and Starting.
GAPS_S, GAP_WEIGHTS = (0, 1, 6, 31, 301), (60, 20, 10, 6, 3)


def draw_text(rng: random.Random) -> str:
    """A queue file with one or two leaves that have quotas, slots and limits."""
    slots = rng.choice((0, 0, 0, 2))  # what root allows its leaves may not exceed
    return tree(*(_draw_leaf(rng, name, slots) for name in LEAVES), maxapplications=slots)


def _draw_leaf(rng: random.Random, name: str, slots: int) -> dict[str, object]:
    keys: dict[str, object] = {"p": {"application.sort.policy": rng.choice(("fifo", "fifo", "stateaware"))}}
    if rng.random() < 0.4:
        keys["max"] = {"vcore": rng.choice((4, 8, 12))}
    if slots or rng.random() < 0.3:
        keys["maxapplications"] = rng.choice((1, 2))
    if rng.random() < 0.3:
        keys["limits"] = [limit("alice", applications=1, vcore=rng.choice((3, 4)))]
    return queue(name, **keys)


class ResourceManager:
    """Says something new with each ``draw``; ``hear`` tells it what was decided.

    Args:
        is_modest: it never asks for what may lead above a limit: no recovery, resizes, reloads and lost nodes.
        draw: draws a queue file.
    """

    def __init__(self, seed: int, *, is_modest: bool = False, draw: Callable[[random.Random], str] = draw_text) -> None:
        self.rng = random.Random(seed)
        self.text = draw(self.rng)
        self.now_ns = 0
        #: Releases that it has received, with the answer that is expected.
        self.told: list[tuple[str, str, str]] = []
        self._keys: list[tuple[str, str]] = []
        self._number = 0
        self._is_modest = is_modest
        weights: list[tuple[int, Callable[[], Submission]]] = [
            (12, self._placeholder),
            (12, self._real),
            (3, self._application),
            (5, self._release),
            (3, self._node),
            (12, self._answer),
            (1, lambda: remove(self.rng.choice(APPLICATIONS))),
        ]
        if not is_modest:
            weights += [(2, self._resize), (2, self._recovered), (1, lambda: configure(draw(self.rng)))]
            weights += [(1, lambda: release(None, self.rng.choice(APPLICATIONS), self.rng.choice(TERMINATIONS)))]
        self._weights = [weight for weight, _ in weights]
        self._actions = [action for _, action in weights]

    def opening(self) -> list[Submission]:
        nodes = [node(name, vcore=self.rng.choice((3, 6, 10))) for name in NODES[: self.rng.randint(1, 2)]]
        return [*nodes, *(self._application(name) for name in APPLICATIONS)]

    def draw(self) -> list[Submission]:
        """Draw the submissions that arrive together next, at ``now_ns``."""
        self.now_ns += self.rng.choices(GAPS_S, GAP_WEIGHTS)[0] * S_NS
        actions = self.rng.choices(self._actions, self._weights, k=self.rng.randint(1, 4))
        return [action() for action in actions]

    def hear(self, facts: list[Fact]) -> None:
        for decision in facts:
            if isinstance(decision, ReleaseStarted) and decision.node_id is not None:
                self.told.append((decision.ask.application_id, decision.ask.allocation_key, decision.termination_type))

    def answers(self) -> list[Submission]:
        """The confirmations of all releases that were told, each as it should be."""
        owed, self.told = self.told, []
        return [release(key, name, termination_type) for name, key, termination_type in owed]

    def task(self) -> tuple[str, str]:
        """One of the newest tasks that were asked for; it may be gone."""
        return self.rng.choice(self._keys[-20:] or [("g1", "none")])

    def _application(self, name: str | None = None) -> Submission:
        rng = self.rng
        name = name or rng.choice(APPLICATIONS)
        user, timeout_ms = rng.choice(("alice", "bob")), rng.choice((0, 5000, 5000, 20_000))
        placeholders = {"vcore": rng.choice((2, 3, 4))} if name.startswith("g") else None
        style = rng.choice(("Soft", "Hard"))
        return app(name, f"root.{rng.choice(LEAVES)}", user=user, timeout_ms=timeout_ms, placeholders=placeholders, style=style)

    def _key(self, prefix: str) -> tuple[str, str]:
        if self._keys and not self._is_modest and self.rng.random() < 0.05:  # a key that is, or was, in use
            return self.rng.choice(self._keys)
        self._number += 1
        self._keys.append((self.rng.choice(APPLICATIONS), f"{prefix}{self._number}"))
        return self._keys[-1]

    def _placeholder(self, on: str | None = None) -> Submission:
        name, key = self._key("p")
        size, group = self.rng.choice((1, 1, 2)), self.rng.choice(GROUPS)
        return ask(key, name, group=group, placeholder=True, vcore=size, priority=self.rng.choice((0, 0, 3)), on=on)

    def _real(self, on: str | None = None) -> Submission:
        name, key = self._key("t")
        size, group = self.rng.choice((1, 1, 2, 3)), self.rng.choice(("", *GROUPS, *GROUPS))
        return ask(key, name, group=group, vcore=size, priority=self.rng.choice((0, 0, 5)), on=on)

    def _recovered(self) -> Submission:
        return self.rng.choice((self._placeholder, self._real))(self.rng.choice(NODES))

    def _resize(self) -> Submission:
        """A known key has another size, allows no preemption (AP-116), or is ending already (AP-145)."""
        name, key = self.rng.choice(self._keys or [("g1", "none")])
        size = self.rng.choice((1, 2, 3, 4))
        ends = size == 4 and key[-1] in "05"
        if ends:
            self.told.append((name, key, "STOPPED_BY_RM"))  # nobody has to ask for its release
        flags = {"preempt_self": size % 2 == 1, "releasing": ends, "on": NODES[0] if ends else None}
        return ask(key, name, group="x", placeholder=key.startswith("p"), vcore=size, **flags)  # type: ignore[arg-type]

    def _release(self) -> Submission:
        name, key = self.task()
        return release(key, name, self.rng.choice((*TERMINATIONS, "SCHEDULING_FAILED_ON_RM")))

    def _answer(self) -> Submission:
        """Mostly as it should be; the answer may come again, or another one instead."""
        rng = self.rng
        if not self.told:
            return self._release() if rng.random() < 0.2 else self._real()
        place = rng.randrange(len(self.told))
        name, key, termination_type = self.told[place] if rng.random() < 0.1 else self.told.pop(place)
        return release(
            key, name, termination_type if rng.random() < 0.9 else rng.choice((*TERMINATIONS, "SCHEDULING_FAILED_ON_RM"))
        )

    def _node(self) -> Submission:
        name = self.rng.choice(NODES)
        actions = ("CREATE", "CREATE", "DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "UPDATE", "DECOMISSION")
        action = self.rng.choice(actions[:2] if self._is_modest else actions)
        return node(name, action, **({"vcore": self.rng.choice((2, 6, 10))} if action in ("CREATE", "UPDATE") else {}))
