"""The commands that print the present state of a daemon, from one snapshot of its feed.

Each module has a command, and the rows that it prints; ``listing`` formats them, ``command`` has the options that all share.
"""
