"""An operator in asyncio: lets nothing new run on a node, beside its resource manager."""

import asyncio
import sys

from ykactor.client import RequestRefused
from ykactor.client.asyncio import operate
from ykactor.wire.si import messages as si

URL = sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:9081"


async def main() -> None:
    async with operate(URL) as operator:
        try:
            await operator.request(si.NodeRequest(nodes=[si.NodeInfo(node_id="n1", action=si.NodeAction.DRAIN_NODE)]))
            print("n1 is drained")
        except RequestRefused as refused:
            sys.exit(f"not drained: {refused}")


asyncio.run(main())
