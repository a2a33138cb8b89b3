"""The journal and the partitions of a daemon elsewhere, as a standby keeps them, and how it is asked to take over."""
