"""Answers that a child process computes on copies of partitions, for callers that may not have the copies themselves.

``computing.py`` is the daemon's side: it writes the copies, starts the process, and waits. ``child.py`` is the process. What it
answers is in a file for each question.
"""
