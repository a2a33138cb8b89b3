"""What can go wrong between a client and the daemon."""


class Disconnected(Exception):
    """There is no connection to the daemon: it could not be opened, or was lost or closed. The message has the reason."""


class RequestRefused(Exception):
    """The daemon refused a request, which had no effect.

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
        super().__init__(f"{code}: {path}: {message}" if path else f"{code}: {message}")
        self.code = code
        self.message = message
        self.path = path
