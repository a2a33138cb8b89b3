"""The state of a partition as rows: what is kept when the process ends, and how a partition is made from it again.

May import every package below it. Start reading in ``rows.py``, then ``export.py`` and ``restore.py``.
"""
