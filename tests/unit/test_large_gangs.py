"""Gangs with many members: a step costs the same however many placeholders and replacements there are."""

import sys

from gangs import gang, holder, real, room

from ykactor.core.messages.planned import Budget
from ykactor.core.values.sorted_list import SortedList
from ykactor.sim.direct import carry_out


def steps_of(work):
    """The number of instructions of the interpreter that the work takes."""
    count = 0

    def on_event(frame, event, argument):
        nonlocal count
        count += event == "opcode"
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return on_event

    before = sys.gettrace()
    sys.settrace(on_event)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def large(size):
    """A gang whose placeholders run, and in which half of them are being replaced."""
    world = room(4 * size, confirms=False)
    world.given(gang(2 * size), *(holder(f"p{i:03}") for i in range(2 * size)), *(real(f"t{i:03}") for i in range(size)))
    return world


def test_a_submit_looks_at_no_other_replacement():
    counts = [
        steps_of(lambda world=world: world.direct.ingest(world.now_ns, [real("one-more")])) for world in (large(30), large(120))
    ]
    assert counts[1] < 1.1 * counts[0]


def test_a_replacement_looks_at_no_other_placeholder():
    """Unless the first may not be replaced."""
    counts = []
    for world in (large(30), large(120)):
        world.direct.ingest(world.now_ns, [real("one-more")])
        planner = world.direct.scheduler.planner
        counts.append(steps_of(lambda planner=planner, now_ns=world.now_ns: carry_out(planner.plan(now_ns, Budget(1, 10**6)))))
    assert counts[1] < 1.1 * counts[0]


def test_items_are_taken_out_while_they_are_walked():
    """An item that was yielded may leave; all others are yielded once, in order."""
    items = SortedList()
    for number in range(200):
        items.add((number,), number)
    walked = []
    for item in items.walk():
        walked.append(item)
        if item % 3:
            items.remove((item,))
    assert walked == list(range(200))
    assert list(items) == [number for number in range(200) if not number % 3]
