"""One cycle: the walk over the queue tree and its steps, then commit and settle.

Changes only the scheduler's own state. May import every package below it. Start reading in ``planner.py``.
"""
