"""Which queue an application enters: placement rules, users and groups, queues that are created on demand, admission.

May import ``objects``, ``messages``, ``config`` and ``values``. Start reading in ``admission.py``.
"""
