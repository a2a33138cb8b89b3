"""SIGKILL at any moment: what was reported as committed is there afterwards."""

import random
import subprocess
from itertools import islice
from pathlib import Path

import pytest
from journals import ENVIRONMENT, PYTHON, numbered, opened, records_of, states, turns_of
from seeds import seeds

KILLS = 4


def killed(directory: Path, reports_count: int) -> tuple[str, int]:
    """Starts a child, and kills it while it goes on after its n-th report: the loss that it found, its last report."""
    command = [PYTHON, str(Path(__file__).with_name("committer.py")), str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as child:
        assert child.stdout is not None
        loss = child.stdout.readline().strip()
        *_, seen = islice(child.stdout, reports_count)
        child.kill()
        reports = [seen, *child.stdout]
    return loss, int([line for line in reports if line.endswith("\n")][-1])


@pytest.mark.parametrize("seed", seeds(2))
def test_what_was_reported_is_there(tmp_path: Path, seed: int) -> None:
    """After each of several kills: all reported transactions, at most one more, no gap, and the records of the last one."""
    rng = random.Random(seed)
    for _ in range(KILLS):
        loss, reported = killed(tmp_path, rng.randint(1, 60))
        assert not loss
        store = opened(tmp_path)
        assert store.number in (reported, reported + 1)
        assert not store.loss
        store.close()
        assert records_of(tmp_path) == states(store.number)[store.number]
        turns = turns_of(tmp_path)
        assert turns == [(number, numbered(number).turns) for number in range(turns[0][0], store.number + 1)]
