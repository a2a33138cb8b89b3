"""Reasons of pending asks: codes and sentences, which of them hold at present, and what is told of them.

May import ``preemption``, ``nodes``, ``queueing`` and what is below. Start reading in ``causes.py``.
"""
