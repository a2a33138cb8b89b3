"""Plain values: resources, quantities, identifiers, names, selectors, times, stamps, parts of long work, and the sorted list
of all orders.

Imports nothing else of ykactor. Start reading in ``resources.py``.
"""
