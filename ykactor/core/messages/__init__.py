"""The input of a partition (submissions) and its output (facts), as frozen structs; the states and their transitions.

May import ``config`` and ``values``. Start reading in ``submissions.py`` and ``facts.py``.
"""
