"""A client that does what Python's ``ssl`` cannot: it asks for new keys in a connection (RFC 8446, 4.6.3)."""

from __future__ import annotations

import ctypes
import ctypes.util
import socket

_FOUND = ctypes.util.find_library("ssl")
IS_THERE = _FOUND is not None
_REQUESTED = 1


class OpenSslClient:
    """TLS 1.3 over a socket that blocks; verifies nothing."""

    def __init__(self, sock: socket.socket) -> None:
        self._library = library = ctypes.CDLL(_FOUND)
        for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
            getattr(library, name).restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(library.SSL_CTX_new(ctypes.c_void_p(library.TLS_client_method())))
        self._ssl = ctypes.c_void_p(library.SSL_new(self._context))
        library.SSL_set_fd(self._ssl, sock.fileno())
        self._check(library.SSL_connect(self._ssl))

    def close(self) -> None:
        """Free the memory; the socket stays."""
        self._library.SSL_free(self._ssl)
        self._library.SSL_CTX_free(self._context)

    def update_keys(self) -> None:
        """New keys from here on, and wish the same of the other side."""
        self._check(self._library.SSL_key_update(self._ssl, _REQUESTED))
        self._check(self._library.SSL_do_handshake(self._ssl))

    def write(self, data: bytes) -> None:
        self._check(self._library.SSL_write(self._ssl, data, len(data)))

    def read(self, count: int) -> bytes:
        """The next bytes, at most ``count``."""
        buffer = ctypes.create_string_buffer(count)
        read = self._library.SSL_read(self._ssl, buffer, count)
        self._check(read)
        return buffer.raw[:read]

    @staticmethod
    def _check(result: int) -> None:
        if result <= 0:
            raise ConnectionError(f"OpenSSL returned {result}")
