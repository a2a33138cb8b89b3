"""The event loop of a command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

_Result = TypeVar("_Result")
_Args = TypeVarTuple("_Args")


def run(main: Callable[[*_Args], Awaitable[_Result]], *args: *_Args) -> _Result:
    """Run ``main`` to its end; Ctrl-C raises ``KeyboardInterrupt`` in it, at a checkpoint.

    Anywhere else the interrupt could come between the call of a coroutine function and its ``await``, and Python would print a
    warning into what the command says.
    """
    import trio  # takes 0.1 s to load, which help and completion do without

    return trio.run(main, *args, restrict_keyboard_interrupt_to_checkpoints=True)
