"""The ConfigMaps ``yunikorn-defaults`` and ``yunikorn-configs``: which value holds, what is wrong, when the daemon is told."""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Mapping

import msgspec
import pytest
from dialogue import Dialogue
from objects import node, pod

from ykactor.client import Refusal
from ykactor.kubernetes import configuration, model
from ykactor.kubernetes.configuration import Configuration
from ykactor.kubernetes.messages import Event
from ykactor.wire.si import messages as si

DEFAULTS, CONFIGS = "yunikorn-defaults", "yunikorn-configs"


def config_map(name: str, data: Mapping[str, str], binary: Mapping[str, bytes] | None = None) -> model.ConfigMap:
    packed = {key: b64encode(value).decode() for key, value in (binary or {}).items()}
    body = {"metadata": {"name": name, "namespace": "ykactor"}, "data": dict(data), "binaryData": packed}
    return msgspec.convert(body, model.ConfigMap)


def taken(*maps: model.ConfigMap) -> tuple[Configuration, list[str]]:
    """The configuration from these maps together, and all complaints about them."""
    found, complaints = Configuration(), list[str]()
    for each in maps:
        complaints += found.take(each.metadata.name, each)
    return found, complaints


PLAIN, OTHER = {"queues.yaml": "plain"}, {"queues.yaml": "other"}
PACKED = {"queues.yaml.gz": gzip.compress(b"packed")}


@pytest.mark.parametrize(
    ("maps", "text", "source"),
    [
        ([], "", CONFIGS),
        ([config_map(DEFAULTS, PLAIN)], "plain", DEFAULTS),
        ([config_map(CONFIGS, OTHER), config_map(DEFAULTS, PLAIN)], "other", CONFIGS),
        ([config_map(DEFAULTS, PLAIN), config_map(CONFIGS, {"kubernetes.qps": "5"})], "plain", DEFAULTS),
        ([config_map(CONFIGS, {}, PACKED)], "packed", CONFIGS),
        ([config_map(CONFIGS, {"queues.yaml.gz": b64encode(PACKED["queues.yaml.gz"]).decode()})], "packed", CONFIGS),
        ([config_map(CONFIGS, PLAIN, PACKED)], "plain", CONFIGS),
        ([config_map(DEFAULTS, PLAIN), config_map(CONFIGS, {}, PACKED)], "packed", CONFIGS),
        ([config_map(DEFAULTS, {}, PACKED), config_map(CONFIGS, OTHER)], "other", CONFIGS),
        ([config_map("others", OTHER)], "", CONFIGS),
    ],
)
def test_the_queue_file(maps: list[model.ConfigMap], text: str, source: str) -> None:
    """``yunikorn-configs`` before ``yunikorn-defaults``, in whatever order they come; plain before packed in one of them."""
    found, complaints = taken(*maps)
    assert (found.text(), found.source(), complaints) == (text, source, [])


def test_settings() -> None:
    """Each by itself, and its default if nobody says it."""
    keys = (
        "service.placeholderImage",
        "service.placeholderRunAsUser",
        "service.placeholderRunAsGroup",
        "service.placeholderFsGroup",
    )
    found, _ = taken()
    assert (found.settings.run_as_user, found.settings.run_as_group, found.settings.fs_group, found.qps) == (
        1000,
        3000,
        2000,
        None,
    )
    assert found.settings.image.startswith("registry.k8s.io/pause:")
    first = config_map(DEFAULTS, {**dict(zip(keys, ("one", "1", "2", "3"), strict=True)), "kubernetes.qps": "50"})
    found, complaints = taken(first, config_map(CONFIGS, {keys[0]: "two", keys[2]: "0"}))
    assert (found.settings.image, found.settings.run_as_user, found.settings.run_as_group) == ("two", 1, 0)
    assert (found.settings.fs_group, found.qps, complaints) == (3, 50, [])
    found.take(DEFAULTS, None)
    assert (found.settings.image, found.settings.run_as_user, found.qps) == ("two", 1000, None)


@pytest.mark.parametrize("text", ["-1", "root", "1.5", "99999999999", "\u0661"])
@pytest.mark.parametrize("key", ["service.placeholderRunAsUser", "kubernetes.qps"])
def test_a_wrong_number_counts_as_absent(key: str, text: str) -> None:
    """The complaint comes once, about the ConfigMap that has it."""
    found = Configuration()
    found.take(DEFAULTS, config_map(DEFAULTS, {key: "7"}))
    assert len(found.take(CONFIGS, config_map(CONFIGS, {key: text}))) == 1
    assert 7 in (found.settings.run_as_user, found.qps)
    assert found.take(DEFAULTS, config_map(DEFAULTS, {key: "8"})) == []
    assert 8 in (found.settings.run_as_user, found.qps)
    assert found.take(CONFIGS, config_map(CONFIGS, {key: ""})) == []
    assert 8 in (found.settings.run_as_user, found.qps)
    assert len(found.take(CONFIGS, config_map(CONFIGS, {"kubernetes.qps": "0"}))) == 1


def test_settings_without_effect_are_one_warning() -> None:
    data = {"log.level": "DEBUG", "service.clusterId": "x", "queues.yaml": "text", "admissionController.y": "z"}
    _, complaints = taken(config_map(CONFIGS, data, {"w": b"x"}))
    assert complaints == ["settings without effect here: admissionController.y, log.level, service.clusterId, w"]
    assert taken(config_map("others", data))[1] == []


@pytest.mark.parametrize("data", [b"no gzip", gzip.compress(b"packed", mtime=0)[:-5], gzip.compress(b"\xff", mtime=0), b""])
def test_a_packed_queue_file_that_cannot_be_read(data: bytes) -> None:
    """The other ConfigMap holds."""
    found, complaints = taken(config_map(DEFAULTS, PLAIN), config_map(CONFIGS, {}, {"queues.yaml.gz": data}))
    assert found.text() == "plain"
    assert len(complaints) == 1
    assert complaints[0].startswith("queues.yaml.gz: ")


def test_a_packed_queue_file_may_not_become_larger_than_what_the_daemon_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "TEXT_MAX", 1000)
    for size, count in ((1000, 0), (1001, 1)):
        _, complaints = taken(config_map(CONFIGS, {}, {"queues.yaml.gz": gzip.compress(b"x" * size)}))
        assert len(complaints) == count


# ---- what the daemon is told


def in_force(dialogue: Dialogue) -> list[str]:
    return dialogue.hear(si.Ack(id=""))


def refused(dialogue: Dialogue, text: str) -> list[str]:
    answer = si.ErrorResponse(id="", code="CONFIG_REFUSED", message="config:3:12: found many", path="config")
    return dialogue.hear(Refusal(si.UpdateConfigurationRequest(config=text), answer))


def test_a_changed_queue_file_is_told_once_and_applications_wait_for_it() -> None:
    """Their queues may be new ones."""
    dialogue = Dialogue(node("n1"), config_map(CONFIGS, PLAIN))
    assert dialogue.state.book.configuration.begin_registration() == "plain"
    assert "configuration plain" not in dialogue.register()
    assert dialogue.see(config_map(CONFIGS, {**PLAIN, "kubernetes.qps": "7"})) == []
    assert dialogue.see(config_map(CONFIGS, OTHER)) == ["configuration other"]
    assert dialogue.see(pod("w")) == []
    assert dialogue.see(config_map(CONFIGS, PLAIN)) == ["configuration plain"]
    assert in_force(dialogue) == []
    assert in_force(dialogue) == ["application yunikorn-team-autogen", "ask w"]


def test_a_refused_queue_file_is_told_of_on_its_config_map_and_the_one_before_holds() -> None:
    """The event has line and column; the file is not sent again before it changes."""
    dialogue = Dialogue(node("n1"), config_map(DEFAULTS, PLAIN))
    dialogue.state.book.configuration.begin_registration()
    dialogue.register()
    assert dialogue.see(config_map(DEFAULTS, OTHER)) == ["configuration other"]
    assert dialogue.see(pod("w")) == []
    assert refused(dialogue, "other") == [
        "application yunikorn-team-autogen",
        "ask w",
        "event about yunikorn-defaults ConfigurationRefused",
    ]
    event = dialogue.effects[-1]
    assert isinstance(event, Event)
    assert (event.kind, event.ref.namespace, event.note) == ("ConfigMap", "ykactor", "config:3:12: found many")
    assert dialogue.see(config_map(DEFAULTS, OTHER)) == []
    assert dialogue.lose(config_map(DEFAULTS, OTHER)) == []
    assert dialogue.see(config_map(DEFAULTS, PLAIN)) == ["configuration plain"]


def too_early(dialogue: Dialogue, *, is_late: bool = False) -> list[str]:
    answer = si.ErrorResponse(id="", code="AWAITS_CONFIRMATION", message="until noon", path="config")
    return dialogue.hear(Refusal(si.UpdateConfigurationRequest(config="x", waits_for_confirmation=is_late), answer))


@pytest.mark.parametrize("comes_with_the_registration", [True, False])
def test_a_queue_file_that_comes_while_another_one_awaits_confirmation_is_sent_again(comes_with_the_registration: bool) -> None:
    """CF-91: the daemon keeps it until then. Applications do not wait for it, which may take a day; newer ones come behind it."""
    dialogue = Dialogue(node("n1"), config_map(CONFIGS, OTHER if comes_with_the_registration else PLAIN))
    dialogue.state.book.configuration.begin_registration()
    dialogue.register()
    before = []
    if not comes_with_the_registration:
        assert dialogue.see(config_map(CONFIGS, OTHER)) == ["configuration other"]
        assert dialogue.see(pod("v")) == []
        before = ["application yunikorn-team-autogen", "ask v"]
    assert sorted(too_early(dialogue)) == [*before, "configuration other", "event about yunikorn-configs ConfigurationWaits"]
    assert dialogue.see(pod("w")) == (["ask w"] if before else ["application yunikorn-team-autogen", "ask w"])
    assert dialogue.see(config_map(CONFIGS, PLAIN)) == []
    assert in_force(dialogue) == ["configuration plain"]
    assert dialogue.state.book.configuration.in_flight == 1


def test_a_registration_and_a_change_that_came_too_early() -> None:
    """The daemon is sent the newest queue file once."""
    dialogue = Dialogue(node("n1"), config_map(CONFIGS, PLAIN))
    dialogue.state.book.configuration.begin_registration()
    dialogue.register()
    assert dialogue.see(config_map(CONFIGS, OTHER)) == ["configuration other"]
    assert too_early(dialogue) == ["configuration other", "event about yunikorn-configs ConfigurationWaits"]
    assert too_early(dialogue) == []
    assert in_force(dialogue) == []
    assert dialogue.state.book.configuration.in_flight == 0


def test_a_late_queue_file_that_is_refused_is_sent_again() -> None:
    """Otherwise no later change of the ConfigMap would be told."""
    dialogue = Dialogue(node("n1"), config_map(CONFIGS, PLAIN))
    dialogue.state.book.configuration.begin_registration()
    dialogue.register()
    dialogue.see(config_map(CONFIGS, OTHER))
    for is_late in (False, True, True):
        assert too_early(dialogue, is_late=is_late) == ["configuration other", "event about yunikorn-configs ConfigurationWaits"]
    assert in_force(dialogue) == []
    assert dialogue.see(config_map(CONFIGS, PLAIN)) == ["configuration plain"]
