"""``ykactor explain --changes``: the smallest changes with which an ask would be placed, tried on a copy of the present state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import ceil
from pathlib import Path

import click
from msgspec import UNSET, to_builtins
from rich.cells import cell_len

from ykactor.access.explanations import meanings, no_task
from ykactor.client import explain
from ykactor.core.inspection.changes import (
    AddNode,
    Change,
    DropTerm,
    EndHold,
    Found,
    Free,
    Prioritise,
    Raise,
    Resize,
    Search,
    Undrain,
    Wait,
)
from ykactor.core.inspection.finding import Kind, Match, names_like, nearest, nothing, several
from ykactor.core.turn.scheduler import Cores
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import finished
from ykactor.core.values.printable import printable
from ykactor.core.values.quantities import quantity_text
from ykactor.core.values.times import S_NS
from ykactor.core.values.words import plural, some
from ykactor.sim.smallest import TRIES_MAX
from ykactor.surfaces.cli.cells import age, time_text
from ykactor.surfaces.cli.present_state import present_state
from ykactor.surfaces.cli.urls import Destination, NotPermitted
from ykactor.surfaces.cli.views.listing import Printout
from ykactor.surfaces.copies.changes import SEARCH_S, explained
from ykactor.wire.si import messages as si

#: The width of a line that has a change and its effect.
_WIDTH = 80


def tried(daemon: Destination, journal: Path | None, ask: str, partition: str, *, may_preempt: bool) -> si.Explanation:
    """Explain a pending ask ``APP[/ASK]``, or ``ASK``, on a copy of the present state, and look for changes.

    The copy is made here; a daemon that gives none away computes it there, as far as the caller may see it.

    Raises:
        ClickException: there is no such application or ask.
    """
    try:
        fork, now_ns = present_state(daemon, journal)
    except NotPermitted:
        name, _, key = ask.partition("/")
        asked = partial(explain, daemon.url, name, key, kind="application" if key else "", partition=partition)
        return daemon.run(partial(asked, changes=True, preempt=may_preempt, **daemon.login()))
    cores, match = _meant(fork(), ask, partition)
    found = explained(match, cores, None, now_ns, may_preempt=may_preempt)
    if found is None:
        raise click.ClickException(no_task(match))
    return found


def _meant(partitions: Mapping[PartitionName, Cores], ask: str, wanted: str) -> tuple[Cores, Match]:
    """The only application or task that a name means, and its partition."""
    name, _, key = ask.partition("/")
    kinds: list[Kind] = ["application"] if key else ["application", "ask"]
    among = {other: cores for other, cores in partitions.items() if wanted.lower() in ("", other.lower())}
    if not among:
        raise click.ClickException(f"found {wanted}, expected one of {', '.join(partitions)}")
    for kind in kinds:
        each = [finished(meanings(name, kind, None, core, scheduler.state)) for core, scheduler in among.values()]
        found = [match for matches in each for match in matches]
        if len(found) > 1:
            raise click.ClickException(several(name, found))
        if found:
            return among[found[0].partition], found[0]._replace(key=key or found[0].key)
    if any(finished(meanings(name, None, None, core, scheduler.state)) for core, scheduler in among.values()):
        raise click.ClickException(f"{name} is no application and no ask, of which --changes needs one")
    like = [other for core, _ in among.values() for other in finished(names_like(core, name, "application", None))]
    raise click.ClickException(nothing(name, "application", nearest(name, like)))


def with_changes(explained: Printout, answer: si.Explanation) -> Printout:
    """The explanation of an ask, and behind it the changes."""
    if answer.ask is None or answer.changes is UNSET:
        return explained
    search, name = answer.changes, answer.ask.allocation_key
    document = {**explained.document, "changes": to_builtins(search)}
    return Printout(document, explained.names, lambda is_wide: [*explained.lines(is_wide), "", *lines(search, name)])


# ---- for people


def lines(search: Search, key: str) -> Iterator[str]:
    """``1 raise max vcore of root.a 32 -> 34   t1 on n3; 33 does not suffice``."""
    limit = f"{SEARCH_S:g} s or {TRIES_MAX} tries"
    if not search.found:
        within = f" in {limit}" if search.is_ended else ""
        last = f"; the last that was tried: {search.reason}" if search.reason else ""
        seen, others = ("", "")
        if search.others:
            seen, others = " that you may see", f"; {plural(search.others, 'other')} would"
        yield printable(f"No change{seen} was found that places it{within}{others}{last}")
        return
    yield "Changes, each tried on a copy of the present state:"
    texts = [", and ".join(map(words, found.changes)) for found in search.found]
    width = max((cell_len(text) for text in texts if cell_len(text) <= _WIDTH // 2), default=0)
    for number, (text, found) in enumerate(zip(texts, search.found, strict=True), 1):
        first, effect = printable(f"  {number} {text}"), printable(_effect(found, key))
        line = f"{first}{' ' * (width + 4 - cell_len(first))}   {effect}"
        if cell_len(text) <= width and cell_len(line) <= _WIDTH:
            yield line
        else:
            yield first
            yield f"      {effect}"
    if search.others:
        yield f"And {plural(search.others, 'other')}, about what you may not see"
    if search.is_ended:
        yield f"The search was ended after {limit}: there may be others"


def words(change: Change) -> str:
    """A change in the imperative."""
    match change:
        case Raise(queue_name=queue, whose=whose, resource=resource, before=before, after=after):
            what = f"max {resource}" if resource else "maxapplications"
            amounts = [quantity_text(resource, amount) if resource else str(amount) for amount in (before, after)]
            return f"raise {what} of {f'{whose} in ' if whose else ''}{queue} {' -> '.join(amounts)}"
        case Resize(resource=resource, before=before, after=after):
            return f"ask for {resource} {quantity_text(resource, after)} instead of {quantity_text(resource, before)}"
        case Prioritise(before=before, after=after):
            return f"give it priority {after} instead of {before}"
        case DropTerm(term=term, index=index):
            return f"let it run elsewhere than on {term}" if index is None else f"drop {term} from its selector"
        case Free(node_id=node_id, tasks=tasks, lost_ns=lost_ns):
            ends = some([f"{owner}/{key}" for owner, key in tasks])
            return f"end {ends} on {node_id} ({age(lost_ns // S_NS)} of work lost)"
        case AddNode(like=like):
            return f"add a node like {like}"
        case Undrain(node_id=node_id):
            return f"undrain {node_id}"
        case EndHold(queue_name=queue):
            return f"end the hold of {queue or 'its application'}"
        case Wait(seconds=seconds, task=task, node_id=node_id):
            left = age(ceil(seconds))
            return f"wait for {'/'.join(task)} on {node_id} (at most {left} left, as told)" if task else f"wait {left}"


def _effect(found: Found, key: str) -> str:
    """``t1 on n3; 33 does not suffice``."""
    where, change = f"{key} on {found.node_id}" if found.node_id else f"{key} is placed", found.changes[0]
    if isinstance(change, Wait):
        return f"{where} at {time_text(found.at_ns)}"
    if not found.is_least:
        return f"{where}; at most this is needed"
    if found.too_little is None:
        return where
    resource = change.resource if isinstance(change, Raise | Resize) else ""
    less = quantity_text(resource, found.too_little) if resource else str(found.too_little)
    return f"{where}; {less} does not suffice"
