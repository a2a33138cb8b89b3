"""Requests as large as they may be, and larger (AP-138)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from daemon import node, real_daemon
from test_config_loader import BROKEN, program

from ykactor.client import RequestRefused, connect, keep_registered
from ykactor.surfaces.sessions import peer
from ykactor.surfaces.sessions.peer import read_request
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON, MSGPACK, Encoding
from ykactor.wire.si.lengths import REQUEST_MAX
from ykactor.wire.si.protocol_error import ProtocolError

#: A configuration with characters that are escaped, and such as have more than a byte.
TEXT = 'partitions:\n  - "ä\\U0001F600" # \U0001f600\n' * 20_000


def nodes(count: int) -> si.NodeRequest:
    attributes = {f"label-{number}": "x" * 100 for number in range(10)}
    entries = [si.NodeInfo(node_id=f"n{number}", action="CREATE", attributes=attributes) for number in range(count)]
    return si.NodeRequest(nodes=entries)


@pytest.mark.parametrize("encoding", [JSON, MSGPACK], ids=lambda encoding: encoding.name)
async def test_a_large_configuration_is_read_in_another_process(encoding: Encoding, monkeypatch: pytest.MonkeyPatch) -> None:
    """Registrations and updates of resource managers and operators arrive whole."""
    monkeypatch.setattr(peer, "REQUEST_MAX", 1000)
    registration = si.RegisterResourceManagerRequest(id="r", rm_id="rm", build_info={"a": "b"}, config=TEXT)
    update = si.UpdateConfigurationRequest(id="u", config=TEXT, if_checksum="5")
    for request in registration, update:
        assert await read_request(Encoding.decoding_request, encoding, encoding.encode(request)) == request
    assert await read_request(Encoding.decoding_operator_request, encoding, encoding.encode(update)) == update


async def test_a_mistake_in_a_large_request_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "REQUEST_MAX", 1000)
    wrong = JSON.encode(si.UpdateConfigurationRequest(id="u", config=TEXT)).replace(b'"config"', b'"other":1,"config"')
    with pytest.raises(ProtocolError) as caught:
        await read_request(Encoding.decoding_request, JSON, wrong)
    assert (caught.value.code, caught.value.path, caught.value.request_id) == ("UNKNOWN_FIELD", "other", "u")


@pytest.mark.parametrize("how", BROKEN)
async def test_a_process_that_does_not_work_refuses_the_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    """The session goes on, and its client is told why, for example that it was killed."""
    body = BROKEN[how]
    monkeypatch.setattr(peer, "REQUEST_MAX", 1000)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none") if body is None else program(tmp_path / "python", body))
    with pytest.raises(ProtocolError, match=r"the process that reads a large request failed: .*\w") as caught:
        await read_request(Encoding.decoding_request, JSON, JSON.encode(si.UpdateConfigurationRequest(id="u", config=TEXT)))
    assert (caught.value.code, caught.value.path) == ("UNAVAILABLE", "config")
    reasons = {"missing": "No such file", "fails": "exit status 3", "fails at once": "exit status 3", "killed": "SIGKILL"}
    assert reasons.get(how, "") in caught.value.message


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
async def test_a_request_that_is_too_large_is_refused_and_the_session_goes_on(encoding: str) -> None:
    async with real_daemon() as daemon, connect(daemon.url, rm_id="rm", encoding=encoding) as rm:
        assert len(JSON.encode(nodes(5000))) > REQUEST_MAX
        with pytest.raises(RequestRefused, match="split it") as refused:
            await rm.request(nodes(5000))
        assert refused.value.code == "OUT_OF_RANGE"
        await rm.request(node())


async def test_clients_split_it() -> None:
    """Each part has an answer, and all entries have their effect."""
    async with real_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm") as rm:
            answers = [answered async for answered in rm.send_all([nodes(5000)])]
            assert len(answers) > 4
            assert all(isinstance(answered.outcome, si.Ack) for answered in answers)
        async with keep_registered(daemon.url, rm_id="rm") as kept:
            assert isinstance(await anext(kept), si.RegisterResourceManagerResponse)
            kept.send(si.NodeRequest(id="mine", nodes=nodes(5000).nodes))
            accepted = 0
            async for message in kept:
                if isinstance(message, si.NodeResponse):
                    accepted += len(message.accepted)
                if isinstance(message, si.Ack):
                    break
            assert (message.id, accepted) == ("mine", 5000)
