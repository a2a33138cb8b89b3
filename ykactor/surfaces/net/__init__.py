"""Connections, whatever is served over them: where the daemon listens, sockets, TLS, systemd, and HTTP/1.1 as it is read."""
