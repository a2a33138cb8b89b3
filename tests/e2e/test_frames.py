"""Frames that are made once and written beside the websocket library, over real sockets."""

import errno
import gc
import os
import resource
import socket

import pytest
import trio
import trio.testing
from wsproto import ConnectionType
from wsproto.connection import Connection
from wsproto.events import BytesMessage, TextMessage

from ykactor.surfaces.net import frames as frames_module
from ykactor.surfaces.net.descriptors import RESERVE
from ykactor.surfaces.net.frames import FrameStore
from ykactor.surfaces.net.transports import FrameStream, Transport


@pytest.fixture
def pair():
    """A frame stream with a small buffer, and the socket at its other end."""
    here, there = socket.socketpair()
    here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    stream = FrameStream(Transport(trio.SocketStream(trio.socket.from_stdlib_socket(here))))
    with here, there:
        yield stream, there


def whole_messages(data):
    """The messages that a client reads."""
    client = Connection(ConnectionType.CLIENT)
    client.receive_data(data)
    messages, parts = [], []
    for event in client.events():
        parts.append(event.data)
        if event.message_finished:
            messages.append((type(event), type(event.data)().join(parts)))
            parts = []
    return messages


@pytest.mark.parametrize("length", [0, 1, 125, 126, 65_535, 65_536, 200_000])
def test_a_frame_of_any_length_is_read_by_a_client(length):
    """The header of each size of payload is as RFC 6455 wants it, for text and for binary messages."""
    store = FrameStore()
    assert whole_messages(store.put(b"x" * length, is_text=True).read()) == [(TextMessage, "x" * length)]
    assert whole_messages(store.put(b"y" * length, is_text=False).read()) == [(BytesMessage, b"y" * length)]


@pytest.mark.parametrize("length", [1, 10, 11, 95])
def test_a_long_message_is_several_frames(length, monkeypatch):
    """They are made one at a time, none is longer than a part, and a client reads one message."""
    monkeypatch.setattr(frames_module, "PART_BYTES", 10)
    text = "".join(chr(ord("a") + number % 26) for number in range(length - 1)) + "é"
    for is_text, expected in ((True, (TextMessage, text)), (False, (BytesMessage, text.encode()))):
        parts = [frames.read() for frames in FrameStore().put_in_parts(text.encode(), is_text=is_text)]
        assert len(parts) == -(-(length + 1) // 10)
        assert max(map(len, parts)) <= 12
        assert whole_messages(b"".join(parts)) == [expected]


async def test_frames_and_sends_of_the_library_never_mix(pair):
    """The library's output comes between whole frames, in the order of the calls, however small the socket's buffer is."""
    stream, there = pair
    store = FrameStore()
    payloads = [bytes([number]) * (number * 997 % 30_000) for number in range(100)]
    received = b""

    async def read():
        nonlocal received
        reader = trio.socket.from_stdlib_socket(there)
        while data := await reader.recv(5000):
            received += data

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            for number, payload in enumerate(payloads):
                frames = store.put(payload, is_text=False)
                if number % 3:
                    stream.write(frames)
                    stream.flush()
                else:
                    await stream.send_all(frames.read())
            while not stream.flush():
                await trio.lowlevel.checkpoint()
            await stream.aclose()
    assert [message for _, message in whole_messages(received)] == payloads


async def test_nothing_is_written_while_the_library_sends(pair):
    """A frame would end up inside of that of the library: it waits."""
    stream, there = pair
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.send_all, b"a" * 1_000_000)
        await trio.testing.wait_all_tasks_blocked()
        stream.write(FrameStore().put(b"later", is_text=True))
        assert not stream.flush()
        nursery.cancel_scope.cancel()
    there.setblocking(False)
    assert set(there.recv(2_000_000)) == set(b"a")


async def test_a_broken_connection_is_no_error_of_the_writer(pair):
    """The writer of many connections goes on; the session learns from its own task."""
    stream, there = pair
    there.close()
    stream.write(FrameStore().put(b"x", is_text=True))
    assert not stream.flush()
    await stream.aclose()
    assert not stream.flush()


def test_files_are_freed_with_their_last_frame(monkeypatch):
    """Old frames keep their bytes as long as somebody holds them, and no descriptor stays behind."""
    monkeypatch.setattr(frames_module, "_FILE_BYTES", 1000)
    store = FrameStore()
    before = len(os.listdir("/dev/fd"))
    kept = [store.put(b"%03d" % number * 100, is_text=False) for number in range(40)]
    assert len(os.listdir("/dev/fd")) > before + 5
    assert [frames.read()[-3:] for frames in kept] == [b"%03d" % number for number in range(40)]
    del kept
    assert len(os.listdir("/dev/fd")) <= before + 1


@pytest.mark.parametrize("failing", ["memfd_create", "pwrite"])
async def test_without_files_frames_are_copied(failing, pair, monkeypatch):
    """Frames are also sent while there is no descriptor or no memory for a file; later ones have files again."""

    def fail(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    stream, there = pair
    store = FrameStore()
    with monkeypatch.context() as without:
        without.setattr(os, failing, fail)
        stream.write(store.put(b"a" * 100_000, is_text=False))
        stream.write(store.put(b"b", is_text=False))
    stream.write(store.put(b"c", is_text=False))
    received = b""
    with there, trio.fail_after(60):
        while not stream.flush():
            received += there.recv(2**16)
        await stream.aclose()
        while data := there.recv(2**16):
            received += data
    assert [message for _, message in whole_messages(received)] == [b"a" * 100_000, b"b", b"c"]


def test_files_leave_the_last_descriptors_to_the_daemon(monkeypatch):
    """Followers that read slowly keep files open: these take no descriptor that the journal may need."""
    gc.collect()  # what others have left open must not be closed meanwhile
    os.close(lowest := os.dup(0))  # the number that the file would have
    before = os.listdir("/dev/fd")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (RESERVE + lowest, limits[1]))
    try:
        frames = FrameStore().put(b"x", is_text=False)
        assert os.listdir("/dev/fd") == before
        assert frames.read()[-1:] == b"x"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_the_kernel_keeps_little_for_a_peer_that_does_not_read():
    """The send buffer does not grow: hundreds of slow peers must not use up the memory for the sockets of all."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as there:
        accepted, _ = server.accept()
        stream = FrameStream(Transport(trio.SocketStream(trio.socket.from_stdlib_socket(accepted))))
        stream.limit_buffer()
        there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.write(FrameStore().put(bytes(2**24), is_text=False))
        for _ in range(20):  # a buffer that grows does so while the other end takes something
            assert not stream.flush()
            await trio.sleep(0.01)
        await stream.aclose()
        taken = 0
        while data := await trio.to_thread.run_sync(there.recv, 2**20):
            taken += len(data)
    assert taken < 1.5 * 2**20
