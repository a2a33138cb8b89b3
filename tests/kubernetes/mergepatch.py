"""Merge patches of JSON objects, and the strategic ones of Kubernetes."""

from typing import Any

#: Lists that a strategic patch merges, by the name that their entries have.
_KEYS = {"conditions": "type", "schedulingGates": "name", "containers": "name"}


def merged(old: Any, patch: Any, *, strategic: bool) -> Any:
    """The result of a merge patch, or of a strategic one; what does not change is in both."""
    if not isinstance(patch, dict):
        return patch
    old = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            old.pop(name, None)
        elif name in _KEYS and strategic:
            there, wanted = ({each[_KEYS[name]]: each for each in part} for part in (old.get(name, ()), value))
            names = [*(each for each in wanted if each not in there), *there]  # new entries come first
            pairs = [(there.get(each, {}), wanted.get(each, {})) for each in names]
            old[name] = [merged(*pair, strategic=True) for pair in pairs if "$patch" not in pair[1]]
        else:
            old[name] = merged(old.get(name), value, strategic=strategic)
    return old
