"""The command line: one module for each command, imported when it is called.

May import all other packages of ``surfaces``, none of which imports this one. Start reading in ``main.py``.
"""
