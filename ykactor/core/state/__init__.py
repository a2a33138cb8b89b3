"""What the scheduler knows of its partition: ledger, queue tree, nodes, reservations and preemption attempts.

Facts keep all of this up to date.

May import every package below it. Start reading in ``state.py``, then ``observer.py``.
"""
