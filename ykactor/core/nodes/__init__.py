"""Where something may run: the order of nodes, what the resource manager says about them, and reservations.

May import ``queueing``, ``objects`` and what is below. Start reading in ``index.py``.
"""
