"""One turn of a partition, phase by phase: ingest, observe, plan, commit, settle, publish.

``turn()`` defines the order of the phases; the partition actor and the oracle both drive it and carry the phases out.
May import every package below it. Start reading in ``turn.py``.
"""
