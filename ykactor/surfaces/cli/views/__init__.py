"""The commands that print the present state of a daemon, from one snapshot of its feed.

Each module has commands, and the rows that they print; ``listing`` formats them, ``view`` and ``showing`` have what all share.
"""
