"""The options of Slurm in a script for ``sbatch``, as options of ``ykactor run``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from ykactor.core.values.quantities import duration_text
from ykactor.core.values.times import S_NS
from ykactor.local.slurm import NAMES
from ykactor.surfaces.cli.jobs.script import MARK

_SBATCH = "#SBATCH"
#: What replaces ``_SBATCH`` where nothing is left of a line, and where an option has no counterpart.
_NOT_NEEDED, _LOST = "# not needed:", "# no counterpart:"
_VARIABLE = re.compile(r"\bSLURM_[A-Z_]+\b")
#: Commands of Slurm that scripts call, with the reason why they have no counterpart.
_COMMANDS = {"srun": "a job has no steps: call the program itself", "sbcast": "files come to no other machine"}
_COMMAND = re.compile(rf"^\s*({'|'.join(_COMMANDS)})\b")


class Option(Struct, frozen=True):
    """An option of Slurm; ``value`` is "" if it has none."""

    line: int
    name: str
    value: str

    def __str__(self) -> str:
        return f"--{self.name}" + (f"={self.value}" if self.value else "")


class Lost(Struct, frozen=True):
    """Something in a line that has no counterpart, and why."""

    line: int
    what: str
    reason: str


class Converted(Struct, frozen=True):
    """The text of a script with the options of ``ykactor run``, and what has none."""

    text: str
    lost: list[Lost]


def convert(text: str) -> Converted:
    """Convert the lines ``#SBATCH`` of a script; those behind the first command are none for Slurm either."""
    lines = text.split("\n")
    head = dict(_head(lines))
    options, lost = _options(head)
    words: dict[int, list[str]] = {number: [] for number in head}
    for number, found in _words(options, lost):
        words[number] += found
    last = max(head, default=1)
    is_using = _uses_variables(lines, lost)
    result = []
    for number, line in enumerate(lines, 1):
        result += _line(line, words[number], [each for each in lost if each.line == number]) if number in head else [line]
        if is_using and number == last:
            result.append(f"{MARK} --slurm-env")
    return Converted("\n".join(result), sorted(lost, key=lambda each: each.line))


def _line(line: str, words: list[str], lost: list[Lost]) -> list[str]:
    """The lines that a line with options becomes."""
    converted = [f"{MARK} {shlex.join(words)}"] if words else []
    return [*converted, *(f"{_LOST} {each.what}" for each in lost)] or [f"{_NOT_NEEDED} {line}"]


# ---- the options in the lines


def _head(lines: list[str]) -> Iterator[tuple[int, str]]:
    """The lines before the first command that have options, with their numbers."""
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            return
        if line.split(maxsplit=1)[:1] == [_SBATCH]:
            yield number, line.removeprefix(_SBATCH)


def _options(head: Mapping[int, str]) -> tuple[list[Option], list[Lost]]:
    options, lost = list[Option](), list[Lost]()
    for number, text in head.items():
        try:
            options += _options_of(number, shlex.split(text, comments=True))
        except ValueError as error:
            lost.append(Lost(number, text.strip(), str(error)))
    return options, lost


def _options_of(number: int, words: list[str]) -> Iterator[Option]:
    """The options in the words of a line. Raises:  ValueError: a word is none."""
    rest = iter(words)
    for word in rest:
        name, has_value, value = word.removeprefix("--").partition("=")
        if not word.startswith("--"):
            if not word.startswith("-") or word[1:2] not in _LETTERS:
                raise ValueError(f"found {word!r}, expected an option of sbatch")
            name, value = _LETTERS[word[1]], word[2:]
            has_value = value
        name = _full(name)
        if not has_value and name not in _FLAGS:
            value = next(rest, "")
            if not value:
                raise ValueError(f"found {word} without a value")
        yield Option(number, name, value)


def _full(name: str) -> str:
    """The name of an option that may be abbreviated, as getopt allows it."""
    known = [*_CONVERSIONS, *_TOGETHER, *_REASONS, *_NEEDLESS]
    found = [each for each in known if each.startswith(name)]
    if name not in known and len(found) != 1:
        raise ValueError(f"found --{name}, expected an option of sbatch")
    return name if name in known else found[0]


# ---- what they mean


def _words(options: list[Option], lost: list[Lost]) -> Iterator[tuple[int, list[str]]]:
    """The words for each option with its line; of options that are given twice the last one counts, as for Slurm."""
    last = {option.name: option for option in options}
    for option in last.values():
        try:
            if option.name in _REASONS:
                raise ValueError(_REASONS[option.name])
            if option.name in _CONVERSIONS:
                yield option.line, _CONVERSIONS[option.name](option.value)
            elif option.name in _TOGETHER:
                yield option.line, _TOGETHER[option.name](option, last)
            kinds = _KINDS[option.name].findall(option.value) if option.name in _KINDS else []
            lost += [Lost(option.line, kind, "a type of GPU is no condition here") for kind in kinds]
        except ValueError as error:
            lost.append(Lost(option.line, str(option), str(error)))


#: A type of GPUs in an option.
_KIND = re.compile(r"([A-Za-z]\w*):\d", re.ASCII)
_KINDS = {
    "gres": re.compile(r"gpu:([A-Za-z]\w*)", re.ASCII),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task"), _KIND),
}


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII))


def _number(text: str, what: str = "a whole number above 0") -> int:
    if not _is_number(text):
        raise ValueError(f"found {text!r}, expected {what}")
    return int(text)


def _of(options: Mapping[str, Option], name: str) -> int:
    """The number in an option; 1 if it is not there, or wrong, which is said where it is converted."""
    value = options[name].value if name in options else ""
    return int(value) if _is_number(value) else 1


def _tasks(options: Mapping[str, Option]) -> int:
    return _of(options, "ntasks") if "ntasks" in options else _of(options, "ntasks-per-node")


def _cores(option: Option, options: Mapping[str, Option]) -> list[str]:
    """The cores of all tasks of Slurm together: here the script is one task, which starts what they run."""
    _number(option.value)
    tasks, each = _tasks(options), _of(options, "cpus-per-task")
    right = (name for name, given in options.items() if name in _CORES and _is_number(given.value))
    if option.name != next(right):  # the first of them has the words
        return []
    counted = [f"SLURM_NTASKS={tasks}", f"SLURM_CPUS_PER_TASK={each}"] if tasks > 1 else []
    return ["--vcore", str(tasks * each), *(word for variable in counted for word in ("--env", variable))]


def _memory(text: str, times: int = 1) -> list[str]:
    match = re.fullmatch(r"(\d{1,12})([KMGT]?)B?", text.upper(), re.ASCII)
    if match is None or not int(match[1]):
        raise ValueError(f"found {text!r}, expected an amount such as 4G; 0, all of the machine, has no counterpart")
    return ["--memory", f"{int(match[1]) * times}{match[2] or 'M'}i"]


def _gpus(text: str, times: int = 1) -> list[str]:
    """The GPUs of ``2``, ``a100:2`` or several with commas: a type is no condition here."""
    counts = [_number(part.rpartition(":")[2]) for part in text.split(",")]
    return ["--gpu", str(sum(counts) * times)]


def _generic(text: str) -> list[str]:
    """The resources of ``gpu:a100:2,shard:1``."""
    words, gpus = list[str](), 0
    for part in text.split(",") if text != "none" else ():
        name, *more = part.removeprefix("gres/").removeprefix("gres:").replace("=", ":").split(":")
        count = _number(more[-1]) if more and more[-1].isdecimal() else 1
        if name == "gpu":
            gpus += count
        else:
            words += ["--resource", f"{name}={count}"]
    return words + (["--gpu", str(gpus)] if gpus else [])


def _time(text: str) -> list[str]:
    """The time limit of all forms of Slurm: M, M:S, H:M:S, D-H, D-H:M and D-H:M:S; 0 is none."""
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return []
    match = re.fullmatch(r"(?:(\d{1,5})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", text, re.ASCII)
    if match is None:
        raise ValueError(f"found {text!r}, expected a time such as 90, 1:30:00 or 2-12")
    parts = [int(part) for part in match.groups()[1:] if part is not None]
    if match[1] is None and len(parts) < len(("H", "M", "S")):
        parts.insert(0, 0)
    hours, minutes, seconds = [*parts, 0, 0][:3]
    found = ((int(match[1] or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return ["--time", duration_text(found * S_NS)] if found else []


_UNITS_S = {"": 1, "second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_CLOCK = {"midnight": "00:00", "noon": "12:00", "fika": "15:00", "teatime": "16:00"}


def _begin(text: str) -> list[str]:
    if text == "now":
        return []
    match = re.fullmatch(r"now\+(\d{1,9})([a-z]*?)s?", text, re.ASCII)
    if match and match[2] in _UNITS_S:
        return ["--begin", "+" + duration_text(int(match[1]) * _UNITS_S[match[2]] * S_NS)]
    if not re.fullmatch(r"(\d{4}-\d\d-\d\d)?(T?\d\d:\d\d(:\d\d)?)?", text, re.ASCII) and text not in _CLOCK:
        raise ValueError(f"found {text!r}, expected a time such as 16:00, now+1hour or 2027-01-20T12:34:00")
    return ["--begin", _CLOCK.get(text, text)]


def _queue(text: str) -> list[str]:
    if "," in text:
        raise ValueError("a job has one queue")
    return ["--queue", f"root.{text}"]


def _nodes(text: str) -> list[str]:
    if text.partition("-")[0] != "1":
        raise ValueError("a job runs on one machine")
    return []


_CONDITIONS = {"afterok": "ok", "aftercorr": "ok", "afterany": "any", "afternotok": "failed"}


def _dependency(text: str) -> list[str]:
    """The dependencies of ``afterok:12:13,afterany:14_2``; those of arrays hold element by element where they can."""
    words = list[str]()
    for part in text.split(","):
        kind, *jobs = part.split(":")
        if "?" in part or kind not in _CONDITIONS or not jobs:
            raise ValueError(f"found {part!r}, expected some of {', '.join(_CONDITIONS)}, all of which have to be met")
        for job in jobs:
            match = re.fullmatch(r"(\d{1,9})(?:_(\d{1,9}))?", job, re.ASCII)
            if match is None:
                raise ValueError(f"found {job!r}, expected the number of a job")
            words += ["--after", f"job-{match[1]}" + (f".{match[2]}" if match[2] else "") + f":{_CONDITIONS[kind]}"]
    return words


def _export(text: str) -> list[str]:
    names = text.split(",")
    if "NIL" in names:
        raise ValueError("a job always has an environment")
    given = [name for name in names if name not in ("ALL", "NONE", "")]
    return [*([] if "ALL" in names else ["--clean-env"]), *(word for name in given for word in ("--env", name))]


def _nice(text: str) -> list[str]:
    found = re.fullmatch(r"-?\d{1,9}", text or "100", re.ASCII)
    if found is None:
        raise ValueError(f"found {text!r}, expected a whole number")
    return ["--priority", str(-int(found[0]))]


#: The signs of a pattern for a file that mean the same here.
_PATTERN = re.compile(r"(?:[^%\\]|%\d*[jAaxuN]|%%)*")
_SIGN = re.compile(r"%\d*[jAaxuN%]")


def _file(option: Option, options: Mapping[str, Option]) -> list[str]:
    """The file of an option. Each task of an array has a ``%j`` of its own in Slurm, and so a file."""
    if not _PATTERN.fullmatch(option.value):
        raise ValueError("expected a pattern with some of %A, %a, %j, %N, %u, %x and %%")
    is_for_each = "array" not in options or any(sign.endswith("a") for sign in _SIGN.findall(option.value))
    text = option.value if is_for_each else _SIGN.sub(lambda sign: re.sub("j$", "A_%a", sign[0]), option.value)
    return [f"--{option.name}", text]


def _whole(option: str) -> Callable[[str], list[str]]:
    return lambda text: [option, text]


_CORES = ("cpus-per-task", "ntasks", "ntasks-per-node")
_CONVERSIONS: dict[str, Callable[[str], list[str]]] = {
    "job-name": _whole("--name"),
    "array": _whole("--array"),
    "time": _time,
    "mem": _memory,
    "gpus": _gpus,
    "gpus-per-node": _gpus,
    "gres": _generic,
    "partition": _queue,
    "nodes": _nodes,
    "dependency": _dependency,
    "chdir": _whole("--chdir"),
    "export": _export,
    "begin": _begin,
    "hold": lambda text: ["--hold"],
    "nice": _nice,
    "priority": lambda text: ["--priority", str(_number(text))],
}
#: Those that mean something only together with others.
_TOGETHER: dict[str, Callable[[Option, Mapping[str, Option]], list[str]]] = {
    **dict.fromkeys(_CORES, _cores),
    **dict.fromkeys(("output", "error", "input"), _file),
    "mem-per-cpu": lambda option, options: _memory(option.value, _tasks(options) * _of(options, "cpus-per-task")),
    "gpus-per-task": lambda option, options: _gpus(option.value, _tasks(options)),
}
#: Those that ask for what is so in any case.
_NEEDLESS = ("no-requeue", "parsable", "quiet", "verbose", "get-user-env", "ignore-pbs")
_FLAGS = (*_NEEDLESS, "hold", "requeue", "nice", "exclusive", "oversubscribe", "contiguous", "overcommit", "wait", "test-only")
_HERE = "there is one machine"
#: Those without a counterpart, and why.
_REASONS = {
    "account": "what is used counts for the user and the queue",
    "clusters": _HERE,
    "comment": "jobs have a name only",
    "constraint": _HERE,
    "contiguous": _HERE,
    "distribution": _HERE,
    "exclude": _HERE,
    "exclusive": "ask for all cores of the machine instead",
    "hint": "tasks are bound to no cores",
    "licenses": "a resource of the machine can stand for them: ykactor local --resource NAME=N, run --resource NAME=1",
    "mail-type": "nobody is sent mail: --on-end COMMAND can do that",
    "mail-user": "nobody is sent mail: --on-end COMMAND can do that",
    "mem-per-gpu": "ask for all of the memory with --memory",
    "nodelist": _HERE,
    "open-mode": "retries append, and the first attempt begins anew",
    "overcommit": "tasks have what they ask for",
    "oversubscribe": "tasks have what they ask for",
    "qos": "priority and limits are those of the queue",
    "requeue": "--retries N starts also what has failed again: add it if that is meant",
    "reservation": "nothing is reserved for a time of day",
    "signal": "a task that has to end gets SIGTERM, and SIGKILL after the --grace of ykactor local",
    "test-only": "ykactor run --dry-run is for that",
    "time-min": "a task has one time limit",
    "tmp": "nothing is known of disks",
    "wait": "give it to submit-script",
}
_LETTERS = {
    "A": "account",
    "C": "constraint",
    "D": "chdir",
    "G": "gpus",
    "H": "hold",
    "J": "job-name",
    "L": "licenses",
    "M": "clusters",
    "N": "nodes",
    "O": "overcommit",
    "Q": "quiet",
    "W": "wait",
    "a": "array",
    "b": "begin",
    "c": "cpus-per-task",
    "d": "dependency",
    "e": "error",
    "i": "input",
    "m": "distribution",
    "n": "ntasks",
    "o": "output",
    "p": "partition",
    "q": "qos",
    "s": "oversubscribe",
    "t": "time",
    "v": "verbose",
    "w": "nodelist",
    "x": "exclude",
}


# ---- what the commands of the script use


def _uses_variables(lines: list[str], lost: list[Lost]) -> bool:
    """True if the script uses variables of Slurm that there are; those that there are not, and commands, are lost."""
    is_used = False
    for number, line in enumerate(lines, 1):
        if line.startswith(_SBATCH):
            continue
        for name in dict.fromkeys(_VARIABLE.findall(line)):
            if name in NAMES:
                is_used = True
            else:
                lost.append(Lost(number, name, "there is no such variable"))
        if match := _COMMAND.match(line):
            lost.append(Lost(number, match[1], _COMMANDS[match[1]]))
    return is_used
