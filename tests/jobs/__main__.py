"""``python tests/jobs JOBS KILLS SEED``: run short jobs, kill daemon and local resource manager, and print how often.

First the jobs of one user, then those of two under ``local --system``, which only root can run.
"""

import sys

import trio
from job_campaign import ONE_USER, TWO_USERS, Campaign, Site
from otherusers import directory_for_all, why_no_system


def main() -> None:
    jobs, kills, seed = map(int, sys.argv[1:])
    _play("one user", ONE_USER, jobs, kills, seed)
    if reason := why_no_system():
        print(f"two users: skipped, {reason}")
    else:
        _play("two users", TWO_USERS, jobs, kills, seed)


def _play(what: str, site: Site, jobs: int, kills: int, seed: int) -> None:
    with directory_for_all() as directory:
        campaign = Campaign(directory, site, jobs, seed)
        trio.run(campaign.run, kills)
    print(f"{what}: {jobs} jobs have run exactly as often as told; killed: {dict(campaign.kills)}", flush=True)


if __name__ == "__main__":
    main()
