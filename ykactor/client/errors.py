"""Errors between a client and the daemon."""

from collections.abc import Sequence

from ykactor.wire.si import messages as si

#: An entry of a request that was rejected, as the daemon says it.
Rejected = si.RejectedNode | si.RejectedApplication | si.RejectedAllocation


class Disconnected(Exception):
    """The connection to the daemon could not be opened, or was lost or closed. The message has the reason."""


class SessionReplaced(Disconnected):
    """Another session takes the place of this one, which must not come back by itself.

    A newer one with the id of this resource manager has registered, or an operator has ended the registration to let another
    resource manager register.
    """


class Refused(Exception):
    """The daemon refused a request, or rejected entries of it. The other entries of it took effect.

    Attributes
    ----------
    code : str
        For programs, for example ``NO_APPLICATION`` (AP-139); that of the first rejection.
    message : str
        For people.
    rejections : sequence of si.RejectedNode, si.RejectedApplication or si.RejectedAllocation
        The entries that were rejected, in the order of the daemon; empty if the request was refused as a whole, which is a
        `RequestRefused`.
    """

    def __init__(self, code: str, message: str, rejections: Sequence[Rejected] = ()) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.rejections = rejections


class RequestRefused(Refused):
    """The daemon refused a request as a whole: it had no effect.

    Attributes
    ----------
    code : str
        For programs, for example ``WRONG_TYPE``. Of a connection: ``NOT_AUTHENTICATED`` or ``NOT_PERMITTED``.
    message : str
        For people.
    path : str
        The field of the request, for example ``nodes[0].action``; may be empty.
    """

    def __init__(self, code: str, message: str, path: str = "") -> None:
        super().__init__(code, f"{path}: {message}" if path else message)
        self.message = message
        self.path = path
