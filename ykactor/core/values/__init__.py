"""Plain values: resources, quantities, identifiers, names, selectors, times, stamps, and the sorted list that orders are built on.

Imports nothing else of ykactor. Start reading in ``resources.py``.
"""
