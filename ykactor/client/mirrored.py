"""The documentation of the faces for asyncio and for plain programs, which is that of the trio client."""

from collections.abc import Callable
from functools import WRAPPER_ASSIGNMENTS, wraps
from typing import Any, TypeVar

F = TypeVar("F")
C = TypeVar("C", bound=type)


def documented_as(function: Callable[..., Any]) -> Callable[[F], F]:
    """Name, parameters and docstring are those of this function; what it returns is another face."""
    return wraps(function, [name for name in WRAPPER_ASSIGNMENTS if name not in ("__module__", "__annotations__")])  # type: ignore[return-value]


def mirrors(original: type) -> Callable[[C], C]:
    """The members of a class that have no docstring get that of the class that it stands for."""

    def documented(face: C) -> C:
        for name, member in vars(face).items():
            if not name.startswith("_") and not member.__doc__:
                mirrored = getattr(original, name, None)
                member.__doc__ = (
                    f"As the attribute of `ykactor.client.{original.__name__}`." if mirrored is None else mirrored.__doc__
                )
        return face

    return documented
