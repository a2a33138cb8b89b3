"""Answers of the predicate service on where asks may run (SC-120, SC-154 to SC-156, SC-160).

An ask names its predicate class in a tag; the same answers hold for all asks of one class. When an ask has passed all other
checks on a node, the planner asks about its class and the node, goes on with other asks, and returns when the answer has come;
what it then decides does not depend on how long the answer took. An answer holds until another one comes, the node changes or is
removed, the service withdraws it, or it is used up. A node that is not answered in time counts as refused, so that asks can use
other nodes if the service is dead; it is asked about again after longer and longer times.

Memory is bounded: ``OPEN_MAX`` questions wait for an answer at a time; answers are kept for the classes that were used last.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from ykactor.core.messages.changed import Changed
from ykactor.core.values.ids import NodeID
from ykactor.core.values.times import S_NS

#: A predicate class, and the SI's ``allocate``: True if its asks would run on the node as it is now.
Question = tuple[str, bool]
#: The most nodes that are open at a time for one question.
NODES_MAX = 16
#: The most pairs of question and node that wait for an answer; also the most questions that are remembered.
OPEN_MAX = 4096
#: The most answers that are remembered, about 100 bytes each without their reasons.
KNOWN_MAX = 200_000
#: The most questions searched at a time for answers that can be forgotten.
LOOKS_MAX = 16
#: Longer reasons are cut.
REASON_MAX = 200
#: The time that an answer may take. After the same time the question may be asked again, then after twice as long, and so on;
#: the number of doublings:
PATIENCE_NS = 10 * S_NS
DOUBLINGS_MAX = 6
NO_ANSWER = f"no answer from the resource manager within {PATIENCE_NS // S_NS} s"


class Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to one question about one node, and the question if it is open.

    Attributes:
        due_ns: when the node counts as refused if the question, which is open, is not answered; None if it is not open.
        has_passed: True if the service has answered that asks may run there.
        uses: the number of further placements it holds for; None is any number.
        refusal: the reason why they may not.
        again_ns, silences: the time to ask again after questions without an answer in time, and their number.
    """

    due_ns: int | None = None
    has_passed: bool = False
    uses: int | None = None
    refusal: str | None = None
    again_ns: int = 0
    silences: int = 0


class _Silence(NamedTuple):
    """The silence about a node: when to ask again, and the number of questions without an answer in time."""

    again_ns: int = 0
    times: int = 0


class _Answers(Struct, eq=False):
    """The answers to one question, by node.

    Attributes:
        asked: waiting for an answer, with the time at which the node counts as refused.
        passed: in the order of the answers, with the number of placements that the answer still holds for; None is any number.
        refused: with the reason.
        silent: the nodes that were refused as ``NO_ANSWER``, also while they are asked about again.
    """

    asked: dict[NodeID, int] = {}
    passed: dict[NodeID, int | None] = {}
    refused: dict[NodeID, str] = {}
    silent: dict[NodeID, _Silence] = {}

    def __len__(self) -> int:
        return len(self.asked) + len(self.passed) + len(self.refused)


#: In place of the answers to a question that was never asked; never changed.
_NO_ANSWERS = _Answers()


class Predicates:
    """All answers of one partition, and its open questions.

    Attributes:
        is_answered: True if a predicate service is connected, which is assumed at first. While none is, only nodes that are
            known to pass are used.
        readmissions: increased whenever a refused node may pass after all; lists of the nodes that pass are then stale.
        counted: the number of answers that hold for a number of placements only.
        deadlines: (when, question, node) of answers that are due and of questions to ask again, as a heap; some are stale.
    """

    def __init__(self, changed: Changed) -> None:
        self._changed = changed
        self.is_answered = True
        self.readmissions = 0
        self.counted = 0
        #: Increased whenever something was answered or forgotten.
        self.changes = 0
        #: The question that was used last is the last.
        self._answers: OrderedDict[Question, _Answers] = OrderedDict()
        self._open_count = self._known_count = 0
        self.deadlines: list[tuple[int, Question, NodeID]] = []

    # ---- known answers

    def verdict(self, question: Question, node_id: NodeID) -> bool | None:
        """True if asks of the class may run on the node; None is not known yet. Asks without a class may run anywhere."""
        if not question[0]:
            return True
        answers = self._answers.get(question)
        if answers is not None:
            if node_id in answers.passed:
                return True
            if node_id in answers.refused:
                return False
        return None if self.is_answered else False

    def admits(self, predicate: str, node_id: NodeID) -> bool:
        """True if asks of the class may run on the node, as far as is known; asks without a class may."""
        return not predicate or self.verdict((predicate, True), node_id) is not False

    def passed(self, question: Question) -> Iterable[NodeID]:
        """The nodes that are known to pass, in the order of the answers; read only."""
        return self._answers.get(question, _NO_ANSWERS).passed

    def refuses(self, question: Question) -> bool:
        """True if some node is refused."""
        return bool(question[0]) and (not self.is_answered or bool(self.refusals(question)))

    def refusals(self, question: Question) -> dict[NodeID, str]:
        """The refused nodes with the reasons; read only."""
        return self._answers.get(question, _NO_ANSWERS).refused

    def counts(self) -> list[tuple[Question, int, int, int]]:
        """Each question with the number of nodes for which it is open, passed and refused, in order."""
        return [
            (question, len(answers.asked), len(answers.passed), len(answers.refused))
            for question, answers in sorted(self._answers.items())
        ]

    def known(self) -> Iterator[tuple[Question, NodeID]]:
        """Every question with every node that was asked about or answered."""
        for question, answers in self._answers.items():
            for node_id in dict.fromkeys([*answers.asked, *answers.passed, *answers.refused]):
                yield question, node_id

    def answer_about(self, question: Question, node_id: NodeID) -> Answer | None:
        """The known answer to a question about a node; None if there is none."""
        answers = self._answers.get(question, _NO_ANSWERS)
        if not any(node_id in some for some in (answers.asked, answers.passed, answers.refused)):
            return None
        again_ns, silences = answers.silent.get(node_id, _Silence())
        has_passed, refusal = node_id in answers.passed, answers.refused.get(node_id)
        uses = answers.passed.get(node_id)
        return Answer(answers.asked.get(node_id), has_passed, uses, refusal, again_ns, silences)

    # ---- asking

    def room(self, question: Question) -> int:
        """The number of nodes that may be asked about now."""
        open_count = len(self._answers.get(question, _NO_ANSWERS).asked)
        return min(NODES_MAX - open_count, OPEN_MAX - self._open_count) if self.is_answered else 0

    def is_open(self, question: Question, node_id: NodeID) -> bool:
        """True if the question waits for an answer about the node."""
        return node_id in self._answers.get(question, _NO_ANSWERS).asked

    def awaited(self, question: Question) -> list[NodeID]:
        """The nodes about which the first answer is awaited, at most ``NODES_MAX``."""
        answers = self._answers.get(question, _NO_ANSWERS)
        return [node_id for node_id in answers.asked if node_id not in answers.refused]

    def to_ask_again(self, now_ns: int, question: Question) -> list[NodeID]:
        """Nodes that were not answered in time and may be asked about again."""
        if not self.is_answered:
            return []
        answers = self._answers.get(question, _NO_ANSWERS)
        again = (node_id for node_id, silence in answers.silent.items() if silence.again_ns <= now_ns)
        return [node_id for node_id in again if node_id not in answers.asked]

    def ask(self, now_ns: int, question: Question, nodes: Iterable[NodeID]) -> None:
        """Note that the question was asked about these nodes, at most ``room``."""
        answers = self._use(question)
        for node_id in nodes:
            self._note(question, node_id)
            self._open_about(question, answers, node_id, now_ns + PATIENCE_NS)

    def _open_about(self, question: Question, answers: _Answers, node_id: NodeID, due_ns: int) -> None:
        answers.asked[node_id] = due_ns
        self._open_count += 1
        self._known_count += 1
        self._wake_at(due_ns, question, node_id)

    # ---- answers

    def answer(self, question: Question, node_id: NodeID, error: str, uses: int | None = None) -> bool:
        """Note an answer of the service, asked or not; an empty ``error`` is a pass. Returns True if the answer is new.

        Args:
            uses: the number of placements that a pass holds for (SC-160); None is any number. Another number is no new answer.
        """
        answers = self._use(question)
        error = error[:REASON_MAX]
        is_news = answers.refused.get(node_id) != error if error else node_id not in answers.passed
        self._drop(question, answers, node_id)
        if error:
            answers.refused[node_id] = error
        else:
            self._pass(answers, node_id, uses)
            self.readmissions += is_news and not self.is_answered  # without a service what is not known is refused
        self._known_count += 1
        self.changes += is_news
        return is_news

    def place(self, predicate: str, node_id: NodeID) -> None:
        """Use up one placement of each answer about the class and node that holds for a number of them (SC-160)."""
        for question in ((predicate, True), (predicate, False)):
            answers = self._answers.get(question, _NO_ANSWERS)
            left = answers.passed.get(node_id)
            if left is None:
                continue
            if left > 1:
                self._note(question, node_id)
                answers.passed[node_id] = left - 1
            else:
                self._drop(question, answers, node_id)
                self.changes += 1

    def _pass(self, answers: _Answers, node_id: NodeID, uses: int | None) -> None:
        answers.passed[node_id] = uses
        self.counted += uses is not None

    def forget(self, predicate: str, node_id: NodeID | str) -> None:
        """Forget the answers about this class on this node; either may be empty, which means all. O(classes)."""
        self.changes += 1
        for question, answers in list(self._answers.items()):
            if predicate and question[0] != predicate:
                continue
            for forgotten in [NodeID(node_id)] if node_id else [*answers.asked, *answers.passed, *answers.refused]:
                self._drop(question, answers, forgotten)
            if not answers:
                del self._answers[question]

    def set_answered(self, is_answered: bool) -> None:
        """Note that a predicate service was connected or lost: open questions get no answer, and may be asked again."""
        self.is_answered = is_answered
        self.changes += 1
        self.readmissions += 1
        for question, answers in self._answers.items():
            for node_id in [*answers.asked, *answers.silent]:
                self._drop(question, answers, node_id)

    def restore(self, question: Question, node_id: NodeID, answer: Answer) -> None:
        """Restore an answer to a question about a node."""
        answers = self._answers.setdefault(question, _Answers())
        if answer.has_passed:
            self._pass(answers, node_id, answer.uses)
        if answer.refusal is not None:
            answers.refused[node_id] = answer.refusal
        self._known_count += answer.has_passed + (answer.refusal is not None)
        if answer.silences:
            answers.silent[node_id] = _Silence(answer.again_ns, answer.silences)
            self._wake_at(answer.again_ns, question, node_id)
        if answer.due_ns is not None:
            self._open_about(question, answers, node_id, answer.due_ns)

    # ---- time

    def due_ns(self) -> int | None:
        """The time when ``expire`` next has something to do; None while nothing is due."""
        while self.deadlines and not self._is_due(*self.deadlines[0]):
            heapq.heappop(self.deadlines)
        return self.deadlines[0][0] if self.deadlines else None

    def expire(self, now_ns: int) -> bool:
        """Count questions without an answer in time as refused. Returns True if the planner may ask or place something again."""
        is_news = False
        while (due_ns := self.due_ns()) is not None and due_ns <= now_ns:
            _, question, node_id = heapq.heappop(self.deadlines)
            answers = self._answers[question]
            if node_id in answers.asked:
                self._give_up(now_ns, question, answers, node_id)
            is_news = True
        self.changes += is_news
        return is_news

    def _is_due(self, at_ns: int, question: Question, node_id: NodeID) -> bool:
        answers = self._answers.get(question, _NO_ANSWERS)
        silence = answers.silent.get(node_id)
        return answers.asked.get(node_id) == at_ns or (silence is not None and silence.again_ns == at_ns)

    def _give_up(self, now_ns: int, question: Question, answers: _Answers, node_id: NodeID) -> None:
        times = answers.silent.get(node_id, _Silence()).times
        self._drop(question, answers, node_id)
        again_ns = now_ns + (PATIENCE_NS << min(times, DOUBLINGS_MAX))
        answers.silent[node_id] = _Silence(again_ns, times + 1)
        answers.refused[node_id] = NO_ANSWER
        self._known_count += 1
        self._wake_at(again_ns, question, node_id)

    def _wake_at(self, at_ns: int, question: Question, node_id: NodeID) -> None:
        heapq.heappush(self.deadlines, (at_ns, question, node_id))
        if len(self.deadlines) > 2 * self._known_count + OPEN_MAX:  # most of them are stale
            self.deadlines = sorted(entry for entry in self.deadlines if self._is_due(*entry))

    # ---- keeping it small

    def _use(self, question: Question) -> _Answers:
        """The answers to a question, which becomes the most recently used one."""
        answers = self._answers.pop(question, None) or _Answers()
        self._make_room()
        self._answers[question] = answers
        return answers

    def _make_room(self) -> None:
        """Forget the least recently used answers while there are too many; open questions stay, and count as used now."""
        for _ in range(min(LOOKS_MAX, len(self._answers))):
            if self._known_count < KNOWN_MAX and len(self._answers) < OPEN_MAX:
                break
            question, answers = self._answers.popitem(last=False)
            self._forget_known(question, answers)
            if answers:
                self._answers[question] = answers

    def _forget_known(self, question: Question, answers: _Answers) -> None:
        for node_id in [*answers.passed, *answers.refused]:
            if node_id not in answers.asked:
                self._drop(question, answers, node_id)

    def _note(self, question: Question, node_id: NodeID) -> None:
        predicate, allocate = question
        self._changed.answer(predicate, node_id, allocate=allocate)

    def _drop(self, question: Question, answers: _Answers, node_id: NodeID) -> None:
        self._note(question, node_id)
        before = len(answers)
        if answers.asked.pop(node_id, None) is not None:
            self._open_count -= 1
        self.counted -= answers.passed.pop(node_id, None) is not None
        if answers.refused.pop(node_id, None) is not None:
            self.readmissions += 1
        answers.silent.pop(node_id, None)
        self._known_count -= before - len(answers)
