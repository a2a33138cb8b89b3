"""The command line: one module for each command, imported when it is called.

May import ``surfaces.server``, which must not import this package. Start reading in ``main.py``.
"""
