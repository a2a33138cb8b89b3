"""``ykactor`` of a later version, in which reasons have other words: a turn that tells one has other facts."""

import ykactor
from ykactor.core.waiting import scheduling_states
from ykactor.surfaces.cli.main import main

if __name__ == "__main__":
    ykactor.__version__ = "99.0.0"
    scheduling_states.REASON_MAX = 7
    main()
