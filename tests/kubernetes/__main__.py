"""``python tests/kubernetes KILLS [SEED]``: kills of everything, with one adapter and with two replicas.

With ``YK_KUBE_APISERVER`` and ``YK_ETCD`` beside a real API server, else beside the fake one.
"""

import sys
import tempfile
from functools import partial
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parent))

from kubecampaign import FakeServing, RealServing, run
from realserver import missing

if __name__ == "__main__":
    print(missing() or "beside a real API server", flush=True)
    kills, seed = int(sys.argv[1]), int((*sys.argv[2:], "0")[0])
    for has_lease in (True, False):
        with tempfile.TemporaryDirectory() as directory:
            serving = (FakeServing if missing() else RealServing)(Path(directory))
            campaign = partial(run, serving, Path(directory), seed, kills, has_lease=has_lease, say=partial(print, flush=True))
            print(trio.run(campaign))
