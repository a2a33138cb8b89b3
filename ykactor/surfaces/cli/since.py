"""The option ``--since`` of commands that read a journal."""

from __future__ import annotations

import click

from ykactor.access import moments
from ykactor.actors.clock import system_ns


def since_ns(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int:
    """The Unix time that is meant, in nanoseconds; 0 if nothing is said."""
    if text is None:
        return 0
    days_ns = moments.days_ns(text)
    if days_ns is not None:
        return system_ns() - days_ns
    moment = moments.parse(text)
    if moment is None:
        raise click.BadParameter(f"found {text!r}, expected a number of days such as 7d, or {moments.FORM}")
    return moments.unix_ns(moment)
