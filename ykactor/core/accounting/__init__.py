"""What is counted and remembered of the past, and no decision depends on: amounts times seconds, and the past of applications.

The owners of applications (``objects``) write it; there is one object of it in a partition (``books.Books``). Start reading in
``account.py``.
"""
