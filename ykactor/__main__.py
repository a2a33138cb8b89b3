"""The command ``ykactor``, also ``python -m ykactor``."""

import sys


def main() -> None:
    """Run the command line. A library that cannot be imported is named in one line."""
    try:
        from ykactor.surfaces.cli.main import main as run

        run()
    except ImportError as error:
        if (error.name or "ykactor").partition(".")[0] == "ykactor":
            raise
        remedy = "install ykactor again with pip; in a checkout 'make clean' removes the broken environment"
        sys.exit(f"Error: the library {error.name} cannot be used ({error}); {remedy}")


if __name__ == "__main__":
    main()
