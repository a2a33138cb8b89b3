"""ykactor: YuniKorn's queue scheduling as one trio daemon."""

__version__ = "0.2.0"
