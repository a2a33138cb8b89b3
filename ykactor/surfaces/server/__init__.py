"""The daemon: its sockets, the files that it watches, signals, systemd and the log.

Never imports ``surfaces.cli``. Start reading in ``daemon.py``.
"""
