"""The daemon: what it runs, what it puts into force, and what it tells its operator. Start reading in ``daemon.py``."""
