"""The command line: one module for each command, imported when it is called.

May import ``surfaces.server``; never the other way round. Start reading in ``main.py``.
"""
