"""A plain model of which configuration must be in force, and of what the resource manager must have been told (CF-90)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, permutations
from typing import NamedTuple

from msgspec import Struct, structs

#: Texts that are no configuration, and that the partition refuses.
BAD, REFUSED = -1, -2


class Step(NamedTuple):
    """A step of an actor.

    Attributes:
        kind: ``write`` (a text to the file), ``event`` (the watcher is told that the file may have changed), ``SIGHUP``,
            ``reload`` (by an operator), ``operator`` or ``manager`` (which send a text).
        text: what is written or sent, as a number.
        id: of the request.
    """

    kind: str
    text: int = 0
    id: str = ""


class Model(Struct, frozen=True):
    """The model of what must hold.

    Attributes:
        disk: the text in the file.
        in_force: the text of the configuration in force.
        read: the text of the file that was read last.
        noted: the same, for the next daemon.
        is_of_manager: whether the resource manager has sent the configuration in force, or the same text.
        told: what the resource manager was sent.
    """

    disk: int
    in_force: int
    read: int
    noted: int
    is_of_manager: bool = False
    told: tuple[str, ...] = ()

    def after(self, step: Step, *, is_answered: bool = True) -> Model:
        """The state that must follow a step; an answer may still be on its way."""
        match step.kind:
            case "write":
                return structs.replace(self, disk=step.text)
            case "event":
                return self.reading(is_asked=False)
            case "SIGHUP" | "reload":
                return self.reading(is_asked=True)
        found = self.changed_to(step.text, is_manager=step.kind == "manager")
        if step.kind == "operator" or not is_answered:
            return found
        answer = "refused" if step.text in (BAD, REFUSED) else "acknowledged"
        return structs.replace(found, told=(*found.told, f"{answer} {step.id}"))

    def restarted(self) -> Model:
        """The state that must follow the next start."""
        return structs.replace(self, read=self.noted).reading(is_asked=False)

    def reading(self, *, is_asked: bool) -> Model:
        """The state that must follow when the file was read."""
        if self.disk == BAD or (self.disk == self.read and not is_asked):
            return self
        return structs.replace(self, read=self.disk).changed_to(self.disk)

    def changed_to(self, text: int, *, is_manager: bool = False) -> Model:
        """The state that must follow a change of the configuration to a text, when nothing else was read in its place."""
        if text in (BAD, REFUSED):
            return self
        told, is_other = self.told, text != self.in_force
        if is_other and self.is_of_manager and not is_manager:
            told = (*told, "replaced")
        is_of_manager = is_manager or (self.is_of_manager and not is_other)
        return structs.replace(self, in_force=text, noted=self.read, is_of_manager=is_of_manager, told=told)


def after_all(models: Iterable[Model], steps: list[Step]) -> set[Model]:
    """The states that may follow simultaneous steps: those of some order of them."""
    return {_after(model, order) for model in models for order in permutations(steps)}


def after_the_end(models: Iterable[Model], steps: list[Step], answered: set[str]) -> set[Model]:
    """The same if the daemon has ended meanwhile: what was answered was done, and the rest may have been."""
    open_steps = [step for step in steps if step.id not in answered]
    found = set()
    for model in models:
        for done in _subsets(open_steps):
            for order in permutations([step for step in steps if step.id in answered or step in done]):
                found.add(_after(model, order, answered))
    return found


def _after(model: Model, order: Iterable[Step], answered: set[str] | None = None) -> Model:
    for step in order:
        model = model.after(step, is_answered=answered is None or step.id in answered)
    return model


def _subsets(steps: list[Step]) -> Iterator[tuple[Step, ...]]:
    for count in range(len(steps) + 1):
        yield from combinations(steps, count)
