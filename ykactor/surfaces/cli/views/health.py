"""``ykactor health``: whether a daemon is well."""

from __future__ import annotations

from collections.abc import Iterable

import click
from msgspec import structs

from ykactor.client import check_health
from ykactor.client.login import LoginOptions
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.views.listing import Column, Printout, field, table
from ykactor.surfaces.cli.views.showing import Showing, showing_options
from ykactor.wire.si import messages as si

_COLUMNS = (
    Column("CHECK", field("name")),
    Column(
        "RESULT",
        lambda row: "failed" if row["problem"] else "ok",
        colour=lambda row: "red" if row["problem"] else "green",
    ),
    Column("OF", field("description")),
    Column("PROBLEM", field("problem")),
)


@click.command()
@click.pass_context
@showing_options
def command(ctx: click.Context, showing: Showing) -> None:
    """Check whether the daemon serves, and whether what it knows agrees with itself; exits with code 1 if something is wrong.

    The checks look at everything that every partition has, at most every 30 s; scheduling goes on meanwhile. Only readers that
    see all partitions and queues may ask for it.
    """
    printout = showing.run_with(_ask, described)
    if not printout.document["healthy"]:
        ctx.exit(exit_codes.FAILED)


async def _ask(url: str, login: LoginOptions) -> si.Health:
    return await check_health(url, **login)


def described(answer: si.Health) -> Printout:
    """All checks."""
    rows = [structs.asdict(check) for check in answer.checks]

    def lines(is_wide: bool) -> Iterable[str]:
        return table(_COLUMNS, rows, is_wide=is_wide)

    return Printout({"healthy": answer.healthy, "checks": rows}, [check.description for check in answer.checks], lines)
