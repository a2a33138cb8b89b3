"""Which queue an application enters: placement rules, users and groups, dynamic queues, admission.

May import ``objects``, ``messages``, ``config`` and ``values``. Start reading in ``admission.py``.
"""
