"""The placement of applications in queues: placement rules, users and groups, dynamic queues, admission.

May import ``objects``, ``messages``, ``config`` and ``values``. Start reading in ``admission.py``.
"""
