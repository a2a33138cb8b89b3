"""What commands that wait for the daemon say of its journal."""

from ykactor.surfaces.cli.terminal import say
from ykactor.wire.si import messages as si


def print_journal_status(status: si.JournalStatus) -> None:
    """On standard error: nothing is acknowledged while the daemon cannot write its journal."""
    text = "the daemon writes its journal again" if status.writable else f"waiting for the journal of the daemon: {status.reason}"
    say(text, err=True)
