"""``ykactor health``: whether a daemon is well."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import click
from msgspec import structs

from ykactor.client import check_health
from ykactor.client.login import LoginOptions
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.views import resource_manager
from ykactor.surfaces.cli.views.description import lines_of
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
_RESOURCE_MANAGER = (resource_manager.column("Resource manager"),)


@click.command()
@click.pass_context
@showing_options
def command(ctx: click.Context, showing: Showing) -> None:
    """Check whether the daemon serves, and whether what it knows agrees with itself; exits with code 1 if something is wrong.

    The checks look at everything that every partition has, at most every 30 s; scheduling goes on meanwhile. Only readers that
    see all partitions and queues may ask for it. The last line tells the registered resource manager, and since when it is
    connected or away, which is nothing wrong with the daemon.
    """
    printout = showing.run_with(_ask, described)
    if not printout.document["healthy"]:
        ctx.exit(exit_codes.FAILED)


async def _ask(url: str, login: LoginOptions) -> si.Health:
    return await check_health(url, **login)


def described(answer: si.Health) -> Printout:
    """All checks, and the resource manager."""
    rows = [structs.asdict(check) for check in answer.checks]
    document = {"healthy": answer.healthy, "checks": rows, **resource_manager.row_of(answer)}

    def lines(is_wide: bool) -> Iterable[str]:
        return chain(table(_COLUMNS, rows, is_wide=is_wide), [""], lines_of(_RESOURCE_MANAGER, document, ())(is_wide))

    return Printout(document, [check.description for check in answer.checks], lines)
