"""How it runs: trio tasks and memory channels around the cores of ``ykactor.core``."""
