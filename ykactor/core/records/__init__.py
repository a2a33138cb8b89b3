"""The state of a partition as rows, which are kept when the process ends, and a partition made from rows.

May import every package below it. Start reading in ``rows.py``, then ``export.py`` and ``restore.py``.
"""
