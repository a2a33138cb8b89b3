"""The journal: what a daemon has to know after a restart, on disk. Blocking calls; no trio, no clock.

One directory holds one journal:

    journal.db    SQLite: the state (tables ``record`` and ``change``), the history (``log``), the state at some of its turns
                  (``base``), what each transaction is about (``mention``), and where each term began (``term``)
    witness       the number and the term of the newest transaction, outside of the database
    lock          held by the daemon that writes

Start reading in ``store.py`` (one writer) and ``reading.py`` (any number of readers, in this process or another).
"""
