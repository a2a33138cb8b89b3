"""``python -m ykactor``."""

from ykactor.surfaces.cli import main

main()
