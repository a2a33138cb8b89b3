"""The keys of the queue file: YAML nodes to drafts of partitions and queues (CF sections 2 and 3).

Drafts are normalised (root inserted, names in lower case) and still know their nodes, so that ``wire.queuerules`` can say
where a rule is broken. A value that could not be read is None and no rule looks at it again.
"""

from msgspec import Struct

from ykactor.core.quantities import is_queue_name, shown
from ykactor.core.resources import Resource
from ykactor.wire.yamlfields import FieldReader, join
from ykactor.wire.yamltext import Mapping, Mistakes, Node, Scalar

PARTITION_KEYS = ("name", "queues", "nodesortpolicy")
PARTITION_LATER = ("placementrules", "limits", "preemption", "usergroupresolver")
QUEUE_KEYS = ("name", "parent", "queues", "resources", "maxapplications", "properties", "adminacl", "submitacl")
QUEUE_LATER = ("childtemplate", "limits")


class QueueDraft(Struct):
    """A queue as it is written."""

    #: Lower case; "" if it is missing.
    name: str | None
    #: ``root.a.b``
    path: str
    #: ``partitions[0].queues[0].queues[2](root.a.b)``
    where: str
    node: Node
    is_parent: bool = False
    #: None is "no such key"; a mapping without entries is kept apart because of E03.
    max_text: dict[str, str] | None = None
    guaranteed_text: dict[str, str] | None = None
    max_applications: int | None = 0
    properties: dict[str, str] = {}
    admin_acl: str = ""
    submit_acl: str = ""
    children: list["QueueDraft"] = []
    #: Filled in by ``wire.queuerules``, which reads the quantities.
    max: Resource | None = None
    guaranteed: Resource | None = None


class PartitionDraft(Struct):
    """A partition as it is written; ``root`` is None if there is no ``queues``."""

    name: str
    where: str
    node: Node
    root: QueueDraft | None
    sort_type: str = ""
    #: None is "not set".
    resource_weights: dict[str, float] | None = None


def read_partitions(document: Node | None, mistakes: Mistakes) -> list[PartitionDraft]:
    """The partitions of a document; notes P2 to P8 in ``mistakes``."""
    start = document or Scalar(1, 1, "", plain=True)
    reader = FieldReader(mistakes)
    found_before = len(mistakes.found)
    # The checksum is recomputed from the text, whatever it says (CF-12); only its kind is checked.
    fields = reader.fields(start, "", ("partitions", "checksum"))
    if "checksum" in fields:
        reader.text(fields["checksum"], "checksum")
    items = reader.items(fields["partitions"], "partitions") if "partitions" in fields else []
    if not items and len(mistakes.found) == found_before:
        mistakes.add("P8", start, "partitions", "found no partition, expected at least one")
    return [_read_partition(node, where, reader) for where, node in items]


def _read_partition(node: Mapping, where: str, reader: FieldReader) -> PartitionDraft:
    fields = reader.fields(node, where, PARTITION_KEYS, PARTITION_LATER)
    name = (reader.text(fields["name"], f"{where}.name") if "name" in fields else "") or "default"
    draft = PartitionDraft(
        name="default" if name.lower() == "default" else name,
        where=where,
        node=node,
        root=_read_root(fields["queues"], where, reader) if "queues" in fields else None,
    )
    if "nodesortpolicy" in fields:
        where = f"{where}.nodesortpolicy"
        policy = reader.fields(fields["nodesortpolicy"], where, ("type", "resourceweights"))
        if "type" in policy:
            draft.sort_type = reader.text(policy["type"], f"{where}.type") or ""
        if "resourceweights" in policy:
            draft.resource_weights = _read_weights(policy["resourceweights"], f"{where}.resourceweights", reader)
    return draft


def _read_weights(node: Node, where: str, reader: FieldReader) -> dict[str, float]:
    entries = reader.entries(node, where) or {}
    read = ((name, reader.number(value, join(where, name))) for name, (_, value) in entries.items())
    return {name: weight for name, weight in read if weight is not None}


def _read_root(node: Node, where: str, reader: FieldReader) -> QueueDraft:
    """The root as it is written, or a new one above what is written (CF-14, CF-15)."""
    items = reader.items(node, f"{where}.queues")
    if len(items) == 1 and (_peek_name(items[0][1]) or "").lower() == "root":
        position, only = items[0]
        root = _read_queue(only, position, "", reader)
        root.is_parent = True
        return root
    children = [_read_queue(item, position, "root", reader) for position, item in items]
    return QueueDraft(name="root", path="root", where=f"{where}(root)", node=node, is_parent=True, children=children)


def _read_queue(node: Mapping, position: str, parent: str, reader: FieldReader) -> QueueDraft:
    """One queue with its children. ``position`` is its path without queue names, ``parent`` the parent's queue path."""
    name = _peek_name(node)
    word = "?" if not name else name.lower() if is_queue_name(name) else shown(name)
    path = f"{parent}.{word}" if parent else word
    where = f"{position}({path})"
    fields = reader.fields(node, where, QUEUE_KEYS, QUEUE_LATER)
    draft = QueueDraft(name=name if name is None else name.lower(), path=path, where=where, node=node)
    if "name" in fields:
        reader.text(fields["name"], f"{where}.name")
    if "queues" in fields:
        items = reader.items(fields["queues"], f"{position}.queues")
        draft.children = [_read_queue(item, below, path, reader) for below, item in items]
    is_marked = "parent" in fields and reader.boolean(fields["parent"], f"{where}.parent")
    draft.is_parent = bool(is_marked or draft.children)
    if "resources" in fields:
        resources = reader.fields(fields["resources"], f"{where}.resources", ("guaranteed", "max"))
        if "max" in resources:
            draft.max_text = reader.texts(resources["max"], f"{where}.resources.max")
        if "guaranteed" in resources:
            draft.guaranteed_text = reader.texts(resources["guaranteed"], f"{where}.resources.guaranteed")
    if "maxapplications" in fields:
        draft.max_applications = reader.unsigned(fields["maxapplications"], f"{where}.maxapplications")
    if "properties" in fields:
        draft.properties = reader.texts(fields["properties"], f"{where}.properties") or {}
    if "adminacl" in fields:
        draft.admin_acl = reader.text(fields["adminacl"], f"{where}.adminacl") or ""
    if "submitacl" in fields:
        draft.submit_acl = reader.text(fields["submitacl"], f"{where}.submitacl") or ""
    return draft


def _peek_name(node: Mapping) -> str | None:
    """The ``name`` of a queue before the queue is read: paths in messages need it. None if it is no text."""
    for key, value in node.entries():
        if isinstance(key, Scalar) and key.text == "name":
            if not isinstance(value, Scalar):
                return None
            return "" if value.is_null else value.text
    return ""
