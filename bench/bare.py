"""Cost of the adapter's client alone: ``python -m bench.bare KUBECONFIG ACTION COUNT``, started by ``bench.town``.

It binds so many pods (``bind``), or reads and decodes so many pods (``list``) or changes of nodes (``watch``): what the adapter
cannot do with less. It prints ``ready``, begins when it reads a line, and prints its CPU seconds.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import msgspec
import trio

from bench.kubeobjects import NAMESPACE, uid_of
from ykactor.kubernetes.api import Api
from ykactor.kubernetes.credentials import of_kubeconfig
from ykactor.kubernetes.model import ListMeta, Node, Pod

#: As many as the adapter has.
_BINDERS = 16
_PAGE = 500


class _Page(msgspec.Struct):
    metadata: ListMeta
    items: list[Pod]


class _Event(msgspec.Struct):
    type: str
    object: Node


async def main(kubeconfig: str, action: str, count: int) -> None:
    """Do it, and print what it has cost."""
    act = {"bind": _bind_all, "list": _list, "watch": _watch}[action]
    async with Api.open(of_kubeconfig(Path(kubeconfig))) as api:
        page = msgspec.json.decode(await api.request("GET", "/api/v1/nodes?limit=1"), type=_Page)  # connections are there
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        began_s = process_time()
        await act(api, count, page.metadata.resource_version)
        print(process_time() - began_s, flush=True)


async def _bind_all(api: Api, count: int, version: str) -> None:
    names = iter([f"bare-{number}" for number in range(count)])
    async with trio.open_nursery() as nursery:
        for _ in range(_BINDERS):
            nursery.start_soon(_bind, api, names)


async def _bind(api: Api, names: Iterator[str]) -> None:
    for name in names:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid_of(name)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        }
        await api.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/binding", body)


async def _list(api: Api, count: int, version: str) -> None:
    continues = "0"
    while continues:
        body = await api.request("GET", f"/api/v1/pods?limit={_PAGE}&continue={continues}")
        page = msgspec.json.decode(body, type=_Page)
        count -= len(page.items)
        continues = page.metadata.continue_
    assert not count


async def _watch(api: Api, count: int, version: str) -> None:
    decoder = msgspec.json.Decoder(_Event)
    async with api.watch(f"/api/v1/nodes?watch=1&resourceVersion={version}&timeoutSeconds=600", 600) as lines:
        async for line in lines:
            decoder.decode(line)
            count -= 1
            if not count:
                return


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
