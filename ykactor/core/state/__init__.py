"""What the scheduler knows of its partition: ledger, queue tree, nodes, reservations and attempts, kept true by facts.

May import every package below it. Start reading in ``state.py``, then ``observer.py``.
"""
