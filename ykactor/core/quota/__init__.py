"""Usage and quotas: of queues (ledger), of users and groups (limits), and what is left (headroom).

Amounts only: no asks, no order. May import ``config`` and ``values``. Start reading in ``ledger.py``.
"""
