"""Writes a queue file as a ConfigMap, which ``manifests`` reads."""

import re

from ykactor.wire.queuefile.manifests import QUEUES

_LINE_END = re.compile("\r\n?")
#: A block scalar whose text begins with these has to say how far it is indented.
_UNCLEAR_INDENTATION = (" ", "\t", "\n")


def config_map(queues: str, name: str, namespace: str) -> str:
    """The manifest, with the text ``queues`` in a block scalar; its line ends become line feeds, and it loses a byte order mark.

    Args:
        name, namespace: as Kubernetes allows them, so that they need no escapes in quotes.
    """
    head = f'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "{name}"\n  namespace: "{namespace}"\ndata:\n'
    return f"{head}  {QUEUES}: {_block(_LINE_END.sub(chr(10), queues.removeprefix(chr(0xFEFF))))}"


def _block(text: str) -> str:
    """A block scalar, as the value of a key that is indented by 2."""
    indicator = "2" if text.startswith(_UNCLEAR_INDENTATION) else ""
    chomping = "-" if not text.endswith("\n") else "+" if text.endswith("\n\n") else ""
    lines = text.removesuffix("\n").split("\n")
    return f"|{indicator}{chomping}\n" + "".join(f"    {line}\n" if line else "\n" for line in lines)
