"""Benchmarks of the scheduler: typed requests in, decisions and encoded events out, through the actors."""
