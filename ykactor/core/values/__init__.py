"""Plain values: resources, quantities, identifiers, names, selectors, times, and the sorted list that orders are made of.

Imports nothing of the package. Start reading in ``resources.py``.
"""
