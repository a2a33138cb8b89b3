"""The daemon: its sockets, the queue file that it watches, systemd and the log.

Never imports ``surfaces.cli``. Start reading in ``daemon.py``.
"""
