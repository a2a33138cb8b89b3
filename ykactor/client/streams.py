"""Streams to the daemon: over TCP, TLS or a Unix socket."""

import ssl
from urllib.parse import SplitResult, urlsplit

from anyio import BrokenResourceError, EndOfStream, aclose_forcefully, connect_tcp, connect_unix
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSStream

from ykactor.client.errors import Disconnected
from ykactor.client.login import Login, tls_context
from ykactor.wire.addresses import UNIX, is_loopback, unix_path

DEFAULT_PORTS = {"ws": 80, "wss": 443}
#: The codes of X.509 for a certificate, or a chain, of an authority that is not trusted.
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)


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


async def open_stream(url: str, login: Login) -> ByteStream:
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
        return await connect_unix(unix_path(url))
    parts = _parts(url)
    host = parts.hostname or ""
    tcp = await connect_tcp(host, parts.port or DEFAULT_PORTS[parts.scheme])
    try:
        if parts.scheme == "wss":
            return await _with_tls(tcp, url, host, login.tls or tls_context())
        # What counts is where the connection has led to: a name can lead anywhere.
        if login.token and not login.insecure and not is_loopback(tcp.extra(SocketAttribute.remote_address)[0]):
            raise Disconnected(
                f"{url}: the token is not sent without TLS to another machine: use wss://, or allow it with --insecure"
            )
        return tcp
    except BaseException:
        await aclose_forcefully(tcp)
        raise


async def _with_tls(tcp: ByteStream, url: str, host: str, context: ssl.SSLContext) -> TLSStream:
    try:
        return await TLSStream.wrap(tcp, hostname=host, ssl_context=context, standard_compatible=False)
    except (ssl.SSLError, BrokenResourceError, EndOfStream) as error:
        match error:
            case ssl.SSLCertVerificationError(verify_code=code, verify_message=message):
                reason = f"the certificate of the daemon is refused: {message}"
                if code in _UNKNOWN_AUTHORITY:
                    reason += "; --tls-ca names the authorities to trust"
            case ssl.SSLError(reason=str(name)):
                reason = f"there is no TLS: {name.lower().replace('_', ' ')}"
            case _:
                reason = "the connection was closed during the handshake of TLS"
        raise Disconnected(f"{url}: {reason}") from error
