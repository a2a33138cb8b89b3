"""The state of the adapter: ``State.handle`` is the only way in. It has no I/O and no clock."""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.kubernetes import claims, hearing, observing, reporting
from ykactor.kubernetes.book import Book
from ykactor.kubernetes.messages import (
    Bind,
    BindEnded,
    Changed,
    CreateEnded,
    CreatePlaceholder,
    Effect,
    FailPod,
    Gone,
    Heard,
    Kind,
    Listed,
    Nominate,
    NotWritten,
    SelectNode,
    SetCondition,
    SetGroupCondition,
    Stimulus,
    Unreadable,
)
from ykactor.kubernetes.pods import has_ended
from ykactor.wire.si import messages as si


class State:
    """Takes what the API server and the daemon say, and decides what both are told.

    Attributes:
        book: all that is known.
        is_registered: True if the daemon knows this adapter.
    """

    def __init__(self, scheduler_name: str) -> None:
        self.book = Book(scheduler_name)
        self.is_registered = False
        self._listed: set[Kind] = set()

    @property
    def is_listed(self) -> bool:
        """True if all kinds were listed once: before, the daemon would place asks on nodes whose pods are not known."""
        return len(self._listed) == len(Kind)

    def handle(self, stimuli: Iterable[Stimulus], now_s: float) -> list[Effect]:
        """Take what has happened, in order, and return what is to be done, in order.

        Args:
            now_s: seconds of any clock that does not go back.
        """
        book = self.book
        book.now_s = now_s
        for stimulus in stimuli:
            self._take(stimulus)
        if not self.is_registered:
            book.forget_changes()
        elif self.is_listed:
            reporting.report(book)
        effects, book.effects = book.effects, []
        return effects

    def stop(self) -> None:
        """This process does not lead any more: it forgets what it has begun, and tells nothing."""
        self.is_registered = False
        for record in self.book.pods.values():
            self.book.unplace(record)
        self.book.say_nothing()

    def wants(self, effect: Bind | CreatePlaceholder | FailPod) -> bool:
        """True if an effect that is tried again and again has a purpose still."""
        book = self.book
        match effect:
            case Bind(key=key, node=node):
                record = book.pods.get(key)
                return record is not None and record.is_binding and record.node == node and not has_ended(record.pod)
            case CreatePlaceholder(application_id=name):
                application = book.applications.get(name)
                if application is None or application.gang is None or application.is_started:
                    return False
                return application.first in book.pods
            case FailPod(ref=ref, uid=uid):
                refused = book.pods.get(book.keys.get(ref, ""))
                return refused is not None and refused.pod.metadata.uid == uid and not refused.place

    def _take(self, stimulus: Stimulus) -> None:
        book = self.book
        match stimulus:
            case Changed(kind, found):
                observing.take(book, kind, found)
            case Gone(kind, ref, uid):
                observing.lose(book, kind, ref, uid)
            case Listed(kind):
                observing.take_list(book, stimulus)
                self._listed.add(kind)
            case Unreadable():
                observing.skip(book, stimulus)
            case Heard(si.RegisterResourceManagerResponse()):
                self.is_registered = True
                book.forget_told()
            case Heard(message):
                hearing.hear(book, message)
            case BindEnded():
                hearing.end_bind(book, stimulus)
            case CreateEnded():
                hearing.end_create(book, stimulus)
            case NotWritten(SelectNode() as select, reason):
                claims.end_select(book, select, reason)
            case NotWritten(Nominate(ref=ref) | SetCondition(ref=ref) | SetGroupCondition(ref=ref)):
                book.unwrite(ref)
