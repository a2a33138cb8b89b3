"""Simulation: the same cores on a virtual clock or in a plain loop, and generated workloads."""
