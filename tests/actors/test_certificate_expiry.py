"""The certificate of the daemon is about to expire: who is told, and when, on a virtual clock."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
import trio.testing
from certificates import Authority

from ykactor.access import moments
from ykactor.actors.clock import Clock
from ykactor.surfaces.daemon.tls_watcher import CertificateExpiry
from ykactor.surfaces.files.tls_files import TlsFiles

DAY_S = 86_400
END = datetime(2027, 3, 1, tzinfo=UTC)


@asynccontextmanager
async def warning(
    directory: Path, days: float
) -> AsyncIterator[tuple[Authority, TlsFiles, CertificateExpiry, list[tuple[float, str]]]]:
    """Runs so many days before the certificate expires; notes after how many days it tells what."""
    authority, told = Authority(directory), list[tuple[float, str]]()
    authority.write(not_after=END)
    files, began_s = TlsFiles(authority.cert, authority.key), trio.current_time()

    async def tell(text: str) -> None:
        told.append((round((trio.current_time() - began_s) / DAY_S, 3), text))

    expiry = CertificateExpiry(files, Clock(moments.unix_ns(END - timedelta(days=days))), tell)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expiry.run)
        yield authority, files, expiry, told
        nursery.cancel_scope.cancel()


def text(left: str) -> str:
    return f"the certificate expires at 2027-03-01T00:00:00Z, in {left}"


async def test_each_moment_once(tmp_path: Path, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture) -> None:
    """SE-35: 30, 7 and 1 day before, in the log too; never again, also when the files are read again."""
    async with warning(tmp_path, 40) as (_, _, expiry, told):
        for _ in range(50):
            await trio.sleep(DAY_S)
            expiry.replaced()
        assert told == [(10.0, text("30 days")), (33.0, text("7 days")), (39.0, text("1 day"))]
    reasons = [record.__dict__["keys"]["reason"] for record in caplog.records if record.levelno == logging.WARNING]
    assert reasons == [f"{tmp_path / 'cert.pem'}: {said}" for _, said in told]


@pytest.mark.parametrize(("days", "first"), [(20, "20 days"), (0.5, "1 day"), (0, "")])
async def test_a_late_start(tmp_path: Path, autojump_clock: trio.testing.MockClock, days: float, first: str) -> None:
    """SE-35: of what has passed the last is told at once; what has expired has a warning of its own."""
    async with warning(tmp_path, days) as (_, _, _, told):
        await trio.sleep(1)
        assert told == ([(0.0, text(first))] if first else [])


async def test_a_new_certificate(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """SE-35: from then on its own moments count."""
    async with warning(tmp_path, 31) as (authority, files, expiry, told):
        await trio.sleep(2 * DAY_S)
        authority.write(not_after=END + timedelta(days=365))
        files.load()
        expiry.replaced()
        await trio.sleep(60 * DAY_S)
        assert [after for after, _ in told] == [1.0]
        await trio.sleep(365 * DAY_S)
        assert [after for after, _ in told] == [1.0, 366.0, 389.0, 395.0]
