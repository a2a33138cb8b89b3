"""``/livez``, ``/readyz`` and ``/metrics`` of the adapter, over plain HTTP for the kubelet and Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

import h11
import trio

from ykactor.kubernetes.adapter import Adapter

#: Connections at a time, and how long one may take.
CONNECTIONS_MAX, CONNECTION_S = 32, 10.0
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


async def serve(adapter: Adapter, host: str, port: int, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
    """Answer until cancelled; started when it listens, with the port.

    Raises:
        OSError: the address cannot be used.
    """
    slots = trio.CapacityLimiter(CONNECTIONS_MAX)

    async def handle(stream: trio.SocketStream) -> None:
        try:
            slots.acquire_nowait()
        except trio.WouldBlock:
            await stream.aclose()
            return
        try:
            with trio.move_on_after(CONNECTION_S):
                async with stream:
                    await _answer(stream, adapter)
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError):
            pass
        finally:
            slots.release()

    listeners = await trio.open_tcp_listeners(port, host=host)
    task_status.started(listeners[0].socket.getsockname()[1])
    await trio.serve_listeners(handle, listeners)


async def _answer(stream: trio.SocketStream, adapter: Adapter) -> None:
    """One request for each connection."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=8192)
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await stream.receive_some(4096))
    if not isinstance(event, h11.Request):
        return
    status, text = _page(event.method, event.target.split(b"?")[0].decode(errors="replace"), adapter)
    body = text.encode()
    headers = [("content-type", _TEXT), ("content-length", str(len(body))), ("connection", "close")]
    data = connection.send(h11.Response(status_code=status, headers=headers)) or b""
    if event.method != b"HEAD":
        data += connection.send(h11.Data(data=body)) or b""
    await stream.send_all(data + (connection.send(h11.EndOfMessage()) or b""))


def _page(method: bytes, path: str, adapter: Adapter) -> tuple[int, str]:
    if method not in (b"GET", b"HEAD"):
        return 405, "expected GET\n"
    match path:
        case "/livez":
            return 200, "ok\n"
        case "/readyz":
            problems = list(adapter.problems())
            return (503, "".join(f"{each}\n" for each in problems)) if problems else (200, "ok\n")
        case "/metrics":
            return 200, "".join(f"{line}\n" for line in _metrics(adapter))
    return 404, "expected /livez, /readyz or /metrics\n"


def _metrics(adapter: Adapter) -> Iterator[str]:
    book, effects, now_s = adapter.state.book, adapter.effects, trio.current_time()
    yield "# TYPE ykactor_kubernetes_leader gauge"
    yield f"ykactor_kubernetes_leader {int(adapter.effects is not None)}"
    yield "# TYPE ykactor_kubernetes_objects gauge"
    yield f'ykactor_kubernetes_objects{{kind="pods"}} {len(book.pods)}'
    yield f'ykactor_kubernetes_objects{{kind="nodes"}} {len(book.nodes)}'
    yield f'ykactor_kubernetes_objects{{kind="applications"}} {len(book.applications)}'
    yield "# TYPE ykactor_kubernetes_relists_total counter"
    for each in adapter.reflectors:
        yield f'ykactor_kubernetes_relists_total{{kind="{each.kind}"}} {each.lists}'
    yield "# TYPE ykactor_kubernetes_watch_age_seconds gauge"
    for each in adapter.reflectors:
        if each.alive_s is not None:
            yield f'ykactor_kubernetes_watch_age_seconds{{kind="{each.kind}"}} {now_s - each.alive_s:.1f}'
    yield "# TYPE ykactor_kubernetes_binds_total counter"
    for outcome, count in adapter.counts.binds.items():
        yield f'ykactor_kubernetes_binds_total{{result="{outcome}"}} {count}'
    yield "# TYPE ykactor_kubernetes_bind_conflicts_total counter"
    yield f"ykactor_kubernetes_bind_conflicts_total {adapter.counts.conflicts}"
    yield "# TYPE ykactor_kubernetes_lane_waiting gauge"
    for name, waiting in effects.waiting().items() if effects is not None else ():
        yield f'ykactor_kubernetes_lane_waiting{{lane="{name}"}} {waiting}'
