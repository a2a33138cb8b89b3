"""``python tests/jobs JOBS KILLS SEED``: run short jobs, kill daemon and local resource manager, and print how often."""

import sys
import tempfile
from pathlib import Path

import trio
from job_campaign import Campaign


def main() -> None:
    jobs, kills, seed = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as directory:
        campaign = Campaign(Path(directory), jobs, seed)
        trio.run(campaign.run, kills)
    print(f"{jobs} jobs have run exactly as often as told; killed: {dict(campaign.kills)}")


if __name__ == "__main__":
    main()
