"""Nodes as the scheduler sees them: their order, answers of the predicate service about them, and reservations.

May import ``queueing``, ``objects`` and what is below. Start reading in ``index.py``.
"""
