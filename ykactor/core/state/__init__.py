"""The state of the scheduler: ledger, queue tree, nodes, reservations and preemption attempts, kept up to date by facts.

May import every package below it. Start reading in ``state.py``, then ``observer.py``.
"""
