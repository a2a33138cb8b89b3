"""Read-only views of a partition: snapshots for people and programs, and the invariants that tests check.

May import every package below it. Start reading in ``snapshot.py`` and ``invariants.py``.
"""
