"""A follower: prints what has happened to one application, and goes on until one of its tasks runs."""

import sys

import trio

from ykactor.client import follow
from ykactor.wire.si import messages as si

URL = sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:9081"


async def main() -> None:
    async with follow(URL, from_=0, applications=["app-1"]) as messages:
        async for message in messages:
            match message:
                case si.EventRecord(event_change_detail="APP_ALLOC"):
                    print("app-1 has", message.reference_id)
                    return
                case si.EventRecord():
                    print(message.event_change_detail)
                case _:
                    print(message)  # events that are lost, or wait for the disk of the daemon


trio.run(main)
