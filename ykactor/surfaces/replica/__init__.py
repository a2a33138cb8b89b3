"""A replica: copies of the partitions of a daemon elsewhere, which run its turns and answer readers."""
