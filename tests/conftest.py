"""Here so that pytest puts this folder on the import path: every kind of test may say ``from world import ...``."""
