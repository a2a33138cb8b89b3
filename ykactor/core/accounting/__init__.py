"""Accounts and records of the past, on which no decision depends: amounts times seconds, and the past of applications.

The owners of applications (``objects``) write it; there is one object of it in a partition (``books.Books``). Start reading in
``accounts.py``.
"""
