"""The actors: trio tasks and memory channels around the cores of ``ykactor.core``."""
