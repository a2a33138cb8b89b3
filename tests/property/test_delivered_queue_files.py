"""A queue file means the same in every form in which it can be delivered."""

import base64
import gzip
import json
from random import Random

import pytest
import yaml
from generated_queues import draw_config, grow_tree
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from seeds import scaled, seeds

from ykactor.wire.queuefile import text as yamltext
from ykactor.wire.queuefile.load import checksum_of, load
from ykactor.wire.queuefile.manifests import config_map, open_queues

LOADERS = [yaml.CSafeLoader, yaml.SafeLoader]


def manifest(**maps: dict[str, str]) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "yunikorn-configs"}, **maps}


def forms(text: str) -> list[str]:
    """The queue file in a ConfigMap (as a block, quoted, JSON, compressed, in a list, in a second document) or Helm values."""
    plain = manifest(data={"queues.yaml": text})
    packed = manifest(binaryData={"queues.yaml.gz": base64.b64encode(gzip.compress(text.encode())).decode()})
    return [
        config_map(text, "yunikorn-configs", "yunikorn"),
        *(yaml.safe_dump(plain, default_style=style) for style in (None, '"', "'", "|")),
        json.dumps(plain),
        yaml.safe_dump(packed),
        yaml.safe_dump({"kind": "List", "items": [{"kind": "Namespace"}, plain]}),
        yaml.safe_dump_all([{"kind": "Namespace"}, plain]),
        yaml.safe_dump({"yunikornDefaults": {"queues.yaml": text}}),
    ]


@pytest.mark.parametrize("seed", seeds(40))
def test_every_form_is_the_same_configuration(seed: int) -> None:
    """CF-85, CF-12: partitions and checksum are those of the queue file, and every form leads back to the same ConfigMap."""
    random = Random(seed)
    text = draw_config(random, grow_tree(random, random.randint(1, 30)), {"vcore": 64000, "memory": 2**36})
    bare = load(text)
    for form in forms(text):
        config = load(form)
        assert (config.partitions, config.checksum) == (bare.partitions, bare.checksum)
        assert config_map(open_queues(form, "").text, "yunikorn-configs", "yunikorn") == forms(text)[0]


#: Pieces in which block scalars differ from other text: breaks, blanks, indicators; YAML keeps all others.
PIECES = st.sampled_from(
    ["a", "b:", "- ", "\n", "\n\n", " ", "\t", "#", "|", "'", '"', "---", "{{", "\u00e4", "😀", "%", "\r\n", "\ufeff"]
)


@settings(max_examples=scaled(400))
@given(st.lists(PIECES, min_size=1, max_size=20).map("".join), st.sampled_from(LOADERS))
def test_a_block_keeps_every_text(text: str, loader: type) -> None:
    """Whatever the queue file looks like, its ConfigMap holds it; line ends become line feeds, a byte order mark is dropped."""
    wanted = text.removeprefix("\ufeff").replace("\r\n", "\n")
    assume(wanted.strip())  # other texts are no queue files
    found = yaml.load(config_map(text, "a", "b"), loader)["data"]["queues.yaml"]
    assert found == wanted


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("ending", ["", "\n", "\n\n", "\n# end", "\n  \n", "\n  "])
@pytest.mark.parametrize("beginning", ["", "\n", "\n\n  # a\n", "# a\n", "---\n", "%YAML 1.1\n---\n"])
def test_beginnings_and_ends(monkeypatch: pytest.MonkeyPatch, loader: type, beginning: str, ending: str) -> None:
    """CF-12: the checksum is kept, so every character is."""
    monkeypatch.setattr(yamltext, "LOADER", loader)
    text = beginning + "partitions: [{queues: [{name: a}]}]" + ending
    assert load(config_map(text, "a", "b")).checksum == checksum_of(text)
