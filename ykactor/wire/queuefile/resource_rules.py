"""Validates the max and the guarantee of queues: E23 to E27.

Only resource types that both sides define are compared.
"""

from ykactor.core.values.quantities import QuantityError, parse_quantity, quantity_text
from ykactor.core.values.resources import Resource
from ykactor.wire.queuefile.places import Key, Text, note
from ykactor.wire.queuefile.schema import Quantities, QueueText
from ykactor.wire.queuefile.text import Mistakes

#: The effective max of a queue: by type the quantity, and the path of the queue that sets it.
Ceiling = dict[str, tuple[int, str]]


def check(queue: QueueText, inherited: Ceiling, mistakes: Mistakes) -> Resource:
    """E23 to E27 of this queue and below.

    Args:
        inherited: the effective max of the parent.
    Returns: the guarantee that counts for the parent: for each type the queue's own, else the sum over its children.
    """
    # A wrong quantity in the max of a queue with limits has been reported as E19.
    unread = Mistakes(mistakes.source) if queue.limits and not queue.is_root else mistakes
    own_max = _of_queue(queue, "max", unread)
    own_guaranteed = _of_queue(queue, "guaranteed", mistakes)
    ceiling = _check_own(queue, own_max, own_guaranteed, inherited, mistakes)
    _check_template(queue, mistakes)
    total: Resource = {}
    for child in queue.queues:
        for name, quantity in check(child, ceiling, mistakes).items():
            total[name] = total.get(name, 0) + quantity
    for name, quantity in total.items():
        if name in own_guaranteed and quantity > own_guaranteed[name]:
            text = f"the guarantees of the children together: {over(name, quantity, own_guaranteed[name])}"
            _note(mistakes, "E26", queue, ("guaranteed", name), f"{text}, the guarantee of {queue.path}")
        if name in ceiling and quantity > ceiling[name][0]:
            text = f"the guarantees of the children together: {over(name, quantity, ceiling[name][0])}"
            _note(mistakes, "E27", queue, ("max", name), f"{text}, the max of {ceiling[name][1]}")
    return total | own_guaranteed


def read(mistakes: Mistakes, code: str, text: Text, keys: tuple[Key, ...], written: Quantities | None) -> Resource:
    """The valid quantities; adds a mistake with ``code`` at ``keys`` below ``text`` for each of the others."""
    resource: Resource = {}
    for name, quantity in (written or {}).items():
        try:
            resource[name] = parse_quantity(name, quantity)
        except QuantityError as error:
            note(mistakes, code, text, (*keys, name), str(error))
    return resource


def over(name: str, found: int, limit: int, whose: str = "") -> str:
    """The quantity that was found, and the largest one that is allowed."""
    return f"found {quantity_text(name, found)} {name}{whose}, expected at most {quantity_text(name, limit)}"


def _check_own(queue: QueueText, own_max: Resource, guaranteed: Resource, inherited: Ceiling, mistakes: Mistakes) -> Ceiling:
    """E24 and E25; returns the effective max."""
    ceiling = dict(inherited)
    for name, quantity in own_max.items():
        if name in guaranteed and guaranteed[name] > quantity:
            text = f"{over(name, guaranteed[name], quantity)}, the max of the same queue"
            _note(mistakes, "E24", queue, ("guaranteed", name), text)
        if name in inherited and quantity > inherited[name][0]:
            text = f"{over(name, quantity, inherited[name][0])}, the max of {inherited[name][1]}"
            _note(mistakes, "E25", queue, ("max", name), text)
        else:
            ceiling[name] = (quantity, queue.path)
    return ceiling


def _check_template(queue: QueueText, mistakes: Mistakes) -> None:
    """E23 of the template; the template of a leaf is ignored, and so is an empty one (CF-13)."""
    template = queue.child_template
    if template and template.resources and template.is_set and queue.is_parent:
        read(mistakes, "E23", template.resources, ("guaranteed",), template.resources.guaranteed)
        read(mistakes, "E23", template.resources, ("max",), template.resources.max)


def _of_queue(queue: QueueText, kind: str, mistakes: Mistakes) -> Resource:
    """``max`` or ``guaranteed``; a guarantee without a positive quantity is not set (QU-33)."""
    if queue.resources is None:
        return {}
    written = queue.resources.max if kind == "max" else queue.resources.guaranteed
    resource = read(mistakes, "E23", queue.resources, (kind,), written)
    return resource if kind == "max" or any(resource.values()) else {}


def _note(mistakes: Mistakes, code: str, queue: QueueText, keys: tuple[Key, ...], text: str) -> None:
    """Add a mistake at ``keys`` below the queue's resources, even if it has none."""
    if queue.resources is None:
        note(mistakes, code, queue, ("resources", *keys), text)
    else:
        note(mistakes, code, queue.resources, keys, text)
