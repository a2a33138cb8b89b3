"""The validation rules of the queue file (CF section 7), one function per stage and in the order of the stages.

Drafts flow in, mistakes are added to the list. "Fits" means: no type that both sides define is larger on the smaller side.
"""

from ykactor.core.quantities import QuantityError, is_queue_name, parse_quantity, shown
from ykactor.core.resources import Resource
from ykactor.wire.queueschema import PartitionDraft, QueueDraft
from ykactor.wire.yamlfields import find, join
from ykactor.wire.yamltext import Mistakes

#: Far more than anybody needs, and far from where a weighted sum of floats would overflow.
WEIGHT_MAX = 1e100

#: The recovery queue below root belongs to the scheduler (CF-28).
RESERVED_NAME = "@recovery@"

#: Effective max of a queue: type -> (quantity, path of the queue that sets it).
Ceiling = dict[str, tuple[int, str]]


def check(partitions: list[PartitionDraft], mistakes: Mistakes) -> None:
    """Note every broken rule; fills in ``max`` and ``guaranteed`` of the queues on the way."""
    first_of_name: dict[str, PartitionDraft] = {}
    for partition in partitions:
        _check_structure(partition, first_of_name, mistakes)
        if partition.root is not None:
            _check_queues(partition.root, is_root=True, mistakes=mistakes)
            _check_resources(partition.root, {}, mistakes)
        _check_node_sort(partition, mistakes)
        if partition.root is not None:
            _check_max_applications(partition.root, mistakes)


def _note(mistakes: Mistakes, code: str, draft: QueueDraft | PartitionDraft, keys: tuple[str, ...], text: str) -> None:
    """A mistake at ``keys`` below a queue or a partition."""
    path = draft.where
    for key in keys:
        path = join(path, key)
    mistakes.add(code, find(draft.node, *keys), path, text)


def _check_structure(partition: PartitionDraft, first_of_name: dict[str, PartitionDraft], mistakes: Mistakes) -> None:
    """E01 to E03."""
    first = first_of_name.setdefault(partition.name.lower(), partition)
    if first is not partition:
        text = f"found a second partition {shown(partition.name)}, the first is {first.where} in line {first.node.line}"
        _note(mistakes, "E01", partition, ("name",), text)
    root = partition.root
    if root is None:
        _note(mistakes, "E02", partition, ("queues",), "found no queues, expected a list (which may be empty)")
        return
    for kind, written in (("guaranteed", root.guaranteed_text), ("max", root.max_text)):
        if written is not None:
            text = f"root queue must not have resource limits set, found {kind}"
            _note(mistakes, "E03", root, ("resources", kind), text)
    root.guaranteed_text = root.max_text = None  # said once, and no limit for the queues below


def _check_queues(queue: QueueDraft, *, is_root: bool, mistakes: Mistakes) -> None:
    """E06 of this queue and E21, E22 and CF-28 of its children, then the same for each child."""
    for key, acl in (("adminacl", queue.admin_acl), ("submitacl", queue.submit_acl)):
        # The strictest of two readings: fields end at every single space, and at any run of white space.
        if len(acl.split(" ")) > 2 or len(acl.split()) > 2:
            text = f"found {shown(acl)}, expected users, one space, groups (each a list with commas, or *)"
            _note(mistakes, "E06", queue, (key,), text)
    first_of_name: dict[str, QueueDraft] = {}
    for child in queue.children:
        if child.name is None:
            continue
        if not is_queue_name(child.name):
            text = f"found {shown(child.name)}, expected 1 to 64 letters, digits or _ : # / @ -"
            _note(mistakes, "E21", child, ("name",), text)
            continue
        first = first_of_name.setdefault(child.name, child)
        if first is not child:
            text = f"found a second queue {child.path}, the first is in line {find(first.node, 'name').line}"
            _note(mistakes, "E22", child, ("name",), f"{text} (names are compared without case)")
        if is_root and child.name == RESERVED_NAME:
            _note(mistakes, "CF-28", child, ("name",), f"the name {RESERVED_NAME} is reserved for the recovery queue")
    for child in queue.children:
        _check_queues(child, is_root=False, mistakes=mistakes)


def _check_resources(queue: QueueDraft, inherited: Ceiling, mistakes: Mistakes) -> Resource:
    """E23 to E27 of this queue and below.

    Args:    inherited: the effective max of the parent.
    Returns: the guarantee that the queue reports to its parent: per type its own, else the sum over its children.
    """
    queue.max = _quantities(queue, "max", queue.max_text, mistakes) or None
    guaranteed = _quantities(queue, "guaranteed", queue.guaranteed_text, mistakes)
    # Zeros alone guarantee nothing; zeros alone in max forbid these types (QU-33).
    queue.guaranteed = guaranteed if any(guaranteed.values()) else None
    own_max, own_guaranteed = queue.max or {}, queue.guaranteed or {}
    ceiling = dict(inherited)
    for name, quantity in own_max.items():
        if name in own_guaranteed and own_guaranteed[name] > quantity:
            text = f"{_over(name, own_guaranteed[name], quantity)}, the max of the same queue"
            _note(mistakes, "E24", queue, ("resources", "guaranteed", name), text)
        if name in inherited and quantity > inherited[name][0]:
            text = f"{_over(name, quantity, inherited[name][0])}, the max of {inherited[name][1]}"
            _note(mistakes, "E25", queue, ("resources", "max", name), text)
        else:
            ceiling[name] = (quantity, queue.path)
    total: Resource = {}
    for child in queue.children:
        for name, quantity in _check_resources(child, ceiling, mistakes).items():
            total[name] = total.get(name, 0) + quantity
    for name, quantity in total.items():
        if name in own_guaranteed and quantity > own_guaranteed[name]:
            text = f"the children are guaranteed too much: {_over(name, quantity, own_guaranteed[name])}"
            _note(mistakes, "E26", queue, ("resources", "guaranteed", name), f"{text}, the guarantee of {queue.path}")
        if name in ceiling and quantity > ceiling[name][0]:
            text = f"the children are guaranteed too much: {_over(name, quantity, ceiling[name][0])}"
            _note(mistakes, "E27", queue, ("resources", "max", name), f"{text}, the max of {ceiling[name][1]}")
    return total | own_guaranteed


def _over(name: str, found: int, limit: int) -> str:
    unit = "thousandths of a vcore" if name == "vcore" else f"of {name}"
    return f"found {found} {unit}, expected at most {limit}"


def _quantities(queue: QueueDraft, kind: str, written: dict[str, str] | None, mistakes: Mistakes) -> Resource:
    """The quantities that can be read; E23 for the others."""
    resource: Resource = {}
    for name, text in (written or {}).items():
        try:
            resource[name] = parse_quantity(name, text)
        except QuantityError as error:
            _note(mistakes, "E23", queue, ("resources", kind, name), str(error))
    return resource


def _check_node_sort(partition: PartitionDraft, mistakes: Mistakes) -> None:
    """E36 and E37."""
    if partition.sort_type not in ("", "fair", "binpacking"):
        text = f"found {shown(partition.sort_type)}, expected fair or binpacking"
        _note(mistakes, "E36", partition, ("nodesortpolicy", "type"), text)
    for name, weight in (partition.resource_weights or {}).items():
        if not 0 <= weight <= WEIGHT_MAX:
            keys = ("nodesortpolicy", "resourceweights", name)
            _note(mistakes, "E37", partition, keys, f"found {weight}, expected a weight from 0 to {WEIGHT_MAX:g}")


def _check_max_applications(queue: QueueDraft, mistakes: Mistakes) -> None:
    """E38 and E39, from the top down. A parent without limit (0) allows any number."""
    limit = queue.max_applications
    for child in queue.children:
        if limit and child.max_applications == 0:
            text = f"found no limit (0), expected 1 to {limit}, as {queue.path} allows {limit}"
            _note(mistakes, "E39", child, ("maxapplications",), text)
        elif limit and child.max_applications is not None and child.max_applications > limit:
            text = f"found {child.max_applications}, expected at most {limit}, as {queue.path} allows no more"
            _note(mistakes, "E38", child, ("maxapplications",), text)
        _check_max_applications(child, mistakes)
