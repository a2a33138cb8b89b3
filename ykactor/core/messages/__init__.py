"""What goes into a partition (submissions) and what comes out of it (facts), as frozen structs; the states and their moves.

May import ``config`` and ``values``. Start reading in ``submissions.py`` and ``facts.py``.
"""
