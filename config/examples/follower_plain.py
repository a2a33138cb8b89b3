"""A follower without an event loop: prints what has happened to one application, and goes on until one of its tasks runs."""

import sys

from ykactor.client.sync import follow
from ykactor.wire.si import messages as si

URL = sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:9081"


def main() -> None:
    with follow(URL, from_=0, applications=["app-1"]) as messages:
        for message in messages:
            match message:
                case si.EventRecord(event_change_detail="APP_ALLOC"):
                    print("app-1 has", message.reference_id)
                    return
                case si.EventRecord():
                    print(message.event_change_detail)
                case _:
                    print(message)  # events that are lost, or wait for the disk of the daemon


main()
