"""Digests of random histories, for processes that are compared: ``python digests.py SEED...`` prints a JSON object."""

import hashlib
import sys
import tempfile
from pathlib import Path

import msgspec
import trio
from fragments import draw_fragments
from ganghistories import ResourceManager
from histories import S_NS, draw_history
from preemptinghistories import Preempting
from recorded import Happening, Step, record
from test_replay import BUDGETS, scheduler_config, steps_of

from ykactor.core.config.model import SchedulerConfig
from ykactor.core.values import resources
from ykactor.journal.reading import Reader
from ykactor.wire import queuefile


def histories(seed: int) -> list[tuple[SchedulerConfig, list[Step]]]:
    """Reloads, administrators and partitions that come and go; gangs; victims."""
    drawn = draw_history(seed), draw_fragments(seed)
    found = [(scheduler_config(history.config), list(steps_of(history, seed))) for history in drawn]
    for manager in (ResourceManager(seed), Preempting(seed)):

        def draw(manager: ResourceManager | Preempting = manager) -> Happening:
            return [*manager.draw()]

        def opening(manager: ResourceManager | Preempting = manager) -> Happening:
            return [*manager.opening()]

        steps = [Step(0, opening), *(Step(number * S_NS, draw) for number in range(30))]
        found.append((queuefile.load(manager.text), steps))
    return found


def digest(seed: int) -> tuple[int, str]:
    """The number of turns of the histories of a seed, and the digest of their causes, times and facts."""
    turns, found = 0, hashlib.sha256()
    for config, steps in histories(seed):
        with tempfile.TemporaryDirectory() as place:
            record(Path(place), config, steps, seed=seed, budget=BUDGETS[seed % 3], ends=0.02)
            with Reader.open(Path(place)) as reader:
                for row in reader.rows():
                    for turn in row.turns():
                        found.update(turn + b"\n")
                        turns += 1
    return turns, found.hexdigest()


if __name__ == "__main__":
    trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[attr-defined]  # tasks are woken in a fixed order
    digests = {seed: digest(int(seed)) for seed in sys.argv[1:]}
    is_compiled = not (resources.__file__ or "").endswith(".py")
    print(msgspec.json.encode({"compiled": is_compiled, "digests": digests}).decode())
