"""The recipe ``config/standby/pair`` with a Lease of Kubernetes as the lock (DU-23)."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import NamedTuple

from pairs import site_of
from test_process import api_server


class Lease(NamedTuple):
    """A Lease of an API server."""

    kubeconfig: Path

    def settings(self, _: str) -> dict[str, str]:
        return {"LOCK": f"ykactor kubernetes lease ykactor-daemon --kubeconfig {self.kubeconfig} --identity pair"}


async def test_a_lease_of_kubernetes_is_a_lock(tmp_path: Path) -> None:
    """The other machine, which has the same name here, takes over when the Lease is given up, and when it has run out."""
    async with api_server(tmp_path) as (_, config), site_of(tmp_path, Lease(config)) as site:
        site.one.is_off = True
        await site.one.stop()
        await site.two.says("begins term 1048576-")
        site.one.turn_on()
        await site.work(5)
        site.two.is_off = True
        site.two.signal(signal.SIGKILL)
        await site.one.says("begins term 2097152-")
    site.told.check(10)
