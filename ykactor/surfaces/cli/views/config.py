"""``ykactor config``: the queue configuration in force."""

from __future__ import annotations

import click
import msgspec

from ykactor.client import read_configuration
from ykactor.client.login import LoginOptions
from ykactor.surfaces.cli.views.listing import Printout
from ykactor.surfaces.cli.views.showing import Showing, showing_options
from ykactor.wire.rest.configuration import json_of
from ykactor.wire.si import messages as si


@click.command()
@showing_options
def command(showing: Showing) -> None:
    """Print the queue configuration in force, as it was read: the text of the queue file, with its comments.

    With -o json and -o yaml it is completed and has its checksum, as in the REST API; with -o name it is the checksum alone. Only
    readers that see all partitions and queues may read it.
    """
    showing.run_with(_ask, described)


async def _ask(url: str, login: LoginOptions) -> si.Configuration:
    return await read_configuration(url, **login)


def described(answer: si.Configuration) -> Printout:
    """A configuration."""
    document = msgspec.json.decode(json_of(answer.config, answer.checksum))
    return Printout(document, [answer.checksum], lambda is_wide: answer.config.removesuffix("\n").split("\n"))
