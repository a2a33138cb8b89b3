"""The scheduling queues: the orders of sibling queues, applications and asks.

The owners keep no order; it is derived from their facts, updated when a key changes and never rebuilt for a decision. May import
``quota``, ``messages``, ``config`` and ``values``. Start reading in ``tree.py``.
"""
