"""The command line: a module for each command, or for those that have one noun, imported when one of them is called.

May import all other packages of ``surfaces``, none of which imports this one. Start reading in ``main.py``.
"""
