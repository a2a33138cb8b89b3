"""The owner of membership and of the order of input: it gives each submission to its owner and fires the timers.

May import ``placement``, ``objects`` and what is below. Start reading in ``partition.py``.
"""
