"""``python -m ykactor``."""

from ykactor.surfaces.cli.main import main

main()
