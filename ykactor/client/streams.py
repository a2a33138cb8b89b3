"""Streams to the daemon: over TCP, TLS or a Unix socket."""

import ssl
from urllib.parse import SplitResult, urlsplit

import trio

from ykactor.client.errors import Disconnected
from ykactor.client.login import Login, tls_context
from ykactor.wire.sockets import UNIX, is_loopback, unix_path

DEFAULT_PORTS = {"ws": 80, "wss": 443}
#: The codes of X.509 for a certificate, or a chain, of an authority that is not trusted.
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


def check_url(url: str) -> None:
    """ValueError unless it is ``ws://HOST:PORT``, ``wss://HOST:PORT`` or ``unix:PATH``."""
    if url.startswith(UNIX):
        unix_path(url)
    else:
        _parts(url)


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or too large
        is_valid = False
    if not is_valid:
        raise ValueError(f"found {url!r}, expected ws://HOST:PORT, wss://HOST:PORT or unix:PATH")
    return parts


def host_of(url: str) -> str:
    """The value of the header ``Host``."""
    return "localhost" if url.startswith(UNIX) else urlsplit(url).netloc.rpartition("@")[2]


def listening_on(url: str) -> str:
    """The value of ``serve --ws`` for this URL."""
    return url if url.startswith(UNIX) else host_of(url)


async def open_stream(url: str, login: Login) -> Stream:
    """Connect, and with TLS verify the daemon.

    Raises
    ------
    Disconnected
        The daemon is not verified, or the token would be sent for others to read.
    OSError
        Nobody is there.
    ValueError
        The URL is not valid, or has no TLS although there are settings for it.
    """
    if login.tls is not None and not url.startswith("wss:"):
        raise ValueError(f"found tls with {url}, expected wss://: without TLS it has no effect")
    if url.startswith(UNIX):
        return await trio.open_unix_socket(unix_path(url))
    parts = _parts(url)
    host = parts.hostname or ""
    tcp = await trio.open_tcp_stream(host, parts.port or DEFAULT_PORTS[parts.scheme])
    try:
        if parts.scheme == "wss":
            return await _with_tls(tcp, url, host, login.tls or tls_context())
        # What counts is where the connection has led to: a name can lead anywhere.
        if login.token and not login.insecure and not is_loopback(tcp.socket.getpeername()[0]):
            raise Disconnected(
                f"{url}: the token is not sent without TLS to another machine: use wss://, or allow it with --insecure"
            )
        return tcp
    except BaseException:
        await trio.aclose_forcefully(tcp)
        raise


async def _with_tls(tcp: trio.SocketStream, url: str, host: str, context: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
    stream = trio.SSLStream(tcp, context, server_hostname=host, https_compatible=True)
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as error:
        match error.__cause__:
            case ssl.SSLCertVerificationError(verify_code=code, verify_message=message):
                reason = f"the certificate of the daemon is refused: {message}"
                if code in _UNKNOWN_AUTHORITY:
                    reason += "; --tls-ca names the authorities to trust"
            case ssl.SSLError(reason=str(name)):
                reason = f"there is no TLS: {name.lower().replace('_', ' ')}"
            case _:
                reason = "the connection was closed during the handshake of TLS"
        raise Disconnected(f"{url}: {reason}") from error
    return stream
