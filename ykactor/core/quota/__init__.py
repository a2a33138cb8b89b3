"""How much is used and may be used: amounts of queues (ledger), of users and groups (limits), and what is left (headroom).

Knows amounts only, no asks and no order. May import ``config`` and ``values``. Start reading in ``ledger.py``.
"""
