"""The same cores in a toy world: a virtual clock, a plain loop, generated workloads."""
