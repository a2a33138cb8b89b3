"""Preemption: its laws, the search for victims, attempts that are under way, and queues above their quota.

May import ``nodes``, ``queueing``, ``quota`` and what is below. Start reading in ``laws.py``.
"""
