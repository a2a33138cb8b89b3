"""``python tests/kubernetes KILLS [SEED]``: kills of everything, with one adapter and with two replicas."""

import sys
import tempfile
from functools import partial
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parent))

from campaign import run

if __name__ == "__main__":
    kills, seed = int(sys.argv[1]), int((*sys.argv[2:], "0")[0])
    for has_lease in (True, False):
        with tempfile.TemporaryDirectory() as directory:
            campaign = partial(run, Path(directory), seed, kills, has_lease=has_lease, say=partial(print, flush=True))
            print(trio.run(campaign))
