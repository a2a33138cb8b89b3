"""The address of a daemon on the command line."""

from urllib.parse import urlsplit

import click

DEFAULT_URL = "ws://127.0.0.1:9081"


class DaemonUrl(click.ParamType[str]):
    """``ws://HOST:PORT`` or ``wss://HOST:PORT``."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not _is_valid(value):
            self.fail(f"found {value!r}, expected ws://HOST:PORT or wss://HOST:PORT", param, ctx)
        return value


#: ``--url``, the same for all commands that connect to a daemon.
url_option = click.option("--url", type=DaemonUrl(), default=DEFAULT_URL, show_default=True, help="The address of the daemon.")


def _is_valid(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or too large
        return False
