"""The messages of the daemon, and what follows from them for the book."""

from msgspec import structs

from ykactor.core.config.properties import WITH_GANGS
from ykactor.local import requests
from ykactor.local.book import PREEMPTED, STOPPED, Book, Work
from ykactor.local.model import State
from ykactor.wire.si import messages as si

#: The advice about a rejection, by its code (AP-139).
_ADVICE: dict[str, str] = {
    si.RejectionCode.SORT_POLICY: f"; a gang needs a queue with the application.sort.policy {WITH_GANGS} (AP-18)"
}
_FAILED_STATES = ("Failing", "Failed")
#: The reason of the move from Failing to Failed: the move to Failing had its own.
_FAILED_AT_LAST = "failApplication"
_GANG_TIMEOUT = "ResourceReservationTimeout"
#: Why an application of this machine fails, in words (AP-95).
_WHY_FAILED = {"Terminated": "cancelled by an operator", "PartitionRemoved": "its partition was removed from the queue file"}


def hear(book: Book, message: si.Response) -> None:
    """Take a message of the daemon."""
    match message:
        case si.ApplicationResponse():
            _applications(book, message)
        case si.AllocationResponse(new=new, released=released, rejected_allocations=refused):
            for allocation in new:
                _allocated(book, allocation)
            for release in released:
                _released(book, release)
            for unwanted in refused:
                _reject(book, unwanted.allocation_key, unwanted.reason)


def hear_refusal(book: Book, request: si.WorkRequest, reason: str) -> None:
    """A request had no effect: what it asks for will never be."""
    match request:
        case si.ApplicationRequest(new=new):
            for entry in new:
                _end_pending(book, entry.application_id, State.REJECTED, reason)
        case si.AllocationRequest(allocations=allocations):
            for allocation in allocations:
                _reject(book, allocation.allocation_key, reason)


# ---- allocations


def _allocated(book: Book, allocation: si.Allocation) -> None:
    work = book.works.get(allocation.application_id)
    task = book.tasks.get(allocation.allocation_key)
    if work is not None and allocation.placeholder and work.gathers:
        work.held.add(allocation.allocation_key)
        if len(work.held) == work.job.count:
            book.effects.tell(requests.ask(work.job, task) for task in work.tasks.values())
    elif work is None or task is None:
        book.effects.release(allocation.application_id, allocation.allocation_key, STOPPED)
    elif task.state is State.PENDING:
        task.priority = allocation.priority  # an operator may have given it another one
        work.placed.add(task.key)
        if not work.gathers:
            book.start(work, task)
        elif len(work.placed) == work.job.count:
            for each in list(work.tasks.values()):
                book.start(work, each)


def _released(book: Book, release: si.AllocationRelease) -> None:
    work = book.works.get(release.application_id)
    if work is not None and release.allocation_key in work.held:
        _placeholder_released(book, work, release)
        return
    task = book.tasks.get(release.allocation_key)
    if work is None or task is None:
        if release.termination_type != STOPPED:  # not the echo of ours
            book.effects.release(release.application_id, release.allocation_key, release.termination_type)
        return
    is_preempted = release.termination_type == PREEMPTED
    reason = work.why or release.message
    if task.state is State.RUNNING:
        book.kill(task, State.PREEMPTED if is_preempted else State.CANCELLED, reason)
    elif task.state is State.ENDING and task.verdict is State.REQUEUED and not is_preempted:
        book.kill(task, State.CANCELLED, reason)
    elif task.state is State.PENDING:
        book.effects.release(task.job, task.key, release.termination_type)
        if is_preempted:  # it has waited for the rest of its gang, and goes on waiting
            work.placed.discard(task.key)
            book.effects.tell([requests.ask(work.job, task)])
        else:
            book.end(task, State.CANCELLED, reason)


def _placeholder_released(book: Book, work: Work, release: si.AllocationRelease) -> None:
    was_complete = len(work.held) == work.job.count
    book.effects.release(release.application_id, release.allocation_key, release.termination_type)
    if release.termination_type != PREEMPTED:
        return
    work.held.discard(release.allocation_key)
    if not was_complete:  # otherwise its task waits like any other one
        book.effects.tell([book.placeholder(work)])


def _reject(book: Book, key: str, reason: str) -> None:
    task = book.tasks.get(key)
    if task is not None and task.state is State.PENDING:
        book.end(task, State.REJECTED, reason)


# ---- applications


def _applications(book: Book, message: si.ApplicationResponse) -> None:
    for placed in message.accepted:
        _accepted(book, placed)
    for move in message.moved:
        _placed(book, move.application_id, move.queue_name)
    for entry in message.rejected:
        _end_pending(book, entry.application_id, State.REJECTED, entry.reason + _ADVICE.get(entry.code, ""))
    for state in message.updated:
        if state.state in _FAILED_STATES:
            _failed(book, state.application_id, state.message)
    for hold in message.held:
        if (work := book.works.get(hold.application_id)) is not None:
            work.has_hold = hold.held
            book.replace(work, structs.replace(work.job, is_held_there=hold.held))
            book.reconsider(work)


def _accepted(book: Book, placed: si.AcceptedApplication) -> None:
    """Placement rules may choose a queue only for a job that has named none: else it would run elsewhere without a word.

    If the job has told no time limit, it has that of the queue from now on. That it was let in with one is kept.
    """
    job, leaf = placed.application_id, placed.queue_name
    work = book.works.get(job)
    if work is not None:
        work.has_hold = False
    if work is None or _is_in(leaf, work.job.queue):
        if work is not None and not work.job.is_let_in and (limit_s := work.job.time_limit_s or placed.run_seconds):
            book.replace(work, structs.replace(work.job, time_limit_s=limit_s, is_let_in=True))
        _placed(book, job, leaf)
        return
    expected = f"expected {work.job.queue}: there is no such queue, or it takes no job of the user {work.job.user}"
    _end_pending(book, job, State.REJECTED, f"found that placement rules lead to {leaf}, {expected}")


def _placed(book: Book, job: str, leaf: str) -> None:
    """The daemon has placed it in a leaf, or moved it there. Kept only if it is news: each is a commit."""
    work = book.works.get(job)
    if work is not None and leaf not in ("", work.job.leaf):
        book.replace(work, structs.replace(work.job, placed_in=leaf))


def _failed(book: Book, job: str, message: str) -> None:
    if message == _GANG_TIMEOUT:
        _end_pending(book, job, State.FAILED, "there was no room for the whole gang in time")
        return
    if job in book.works and (echo := book.works[job].echo) and message in (echo, _FAILED_AT_LAST):
        return
    why = _WHY_FAILED.get(message, f"its application has failed: {message}")
    if job in book.works:
        book.works[job].why = why
    _end_pending(book, job, State.CANCELLED, why)


def _end_pending(book: Book, job: str, state: State, reason: str) -> None:
    if job in book.works:
        book.end_pending(book.works[job], state, reason)


def _is_in(leaf: str, queue: str) -> bool:
    """True if a leaf is the queue that a job has named, or below it; it may have named none."""
    named = queue.lower()
    if named != "root" and not named.startswith("root."):
        named = f"root.{named}"
    return not queue or not leaf or f"{leaf.lower()}.".startswith(f"{named}.")
