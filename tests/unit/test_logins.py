"""The logins of web pages: how many there are, how long each lasts, and of which requests its cookie counts."""

import pytest
from msgspec import structs

from ykactor.access.credentials import Credentials, NotAuthenticatedError, PageRequest
from ykactor.core.values.times import NEVER, S_NS
from ykactor.surfaces.admission.access_control import LIFE_S, LOGINS_MAX, Logins

PAGE = "https://host:9080"


class Ends:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def shown(
    cookies: str, origin: str | None = PAGE, fetch_site: str | None = "same-origin", *, is_read: bool = False, **more: str
) -> Credentials:
    page = PageRequest(cookies=cookies, origin=origin, fetch_site=fetch_site, is_read=is_read)
    return Credentials(page=page, **more)  # type: ignore[arg-type]


def opened(logins: Logins, holder: str = "identity a", now_s: int = 0, expires_ns: int = NEVER) -> str:
    """A new login of a page; the header ``Cookie`` that a browser sends then."""
    cookie = logins.open(f"token of {holder}", PAGE, holder, now_s * S_NS, expires_ns)
    return f"other=1; {cookie.name}={cookie.value}; last"


def test_a_cookie_stands_for_what_was_shown() -> None:
    """SE-98: the bearer of the login, unless the request has its own; an unknown cookie shows nothing."""
    logins = Logins(Ends())
    cookies = opened(logins)
    found = logins.resolved(shown(cookies))
    assert (found.bearer, found.login and found.login.page) == ("token of identity a", PAGE)
    for secret in ("token of", cookies.split("=")[2].split(";")[0]):
        assert secret not in repr((found, found.login, found.page))
    assert logins.resolved(shown(cookies, bearer="own")).login is None
    for other in ("", "x=1", cookies[:-10], cookies.replace("ykactor-", "other-")):
        assert logins.resolved(shown(other)).bearer is None
    assert Logins(Ends()).resolved(shown(cookies)).bearer is None  # of another daemon


@pytest.mark.parametrize(
    ("origin", "fetch_site", "is_read", "is_let_in"),
    [
        (PAGE, "same-origin", False, True),
        (PAGE, None, False, True),
        (None, "same-origin", True, True),
        (None, "none", True, True),
        (None, None, True, True),
        (None, None, False, False),
        (None, "same-site", True, False),
        (None, "cross-site", True, False),
        ("https://host:9090", "same-site", True, False),
        ("https://evil.example", "cross-site", False, False),
        ("null", None, True, False),
        ("", None, True, False),
    ],
)
def test_a_cookie_counts_for_its_page_only(origin: str | None, fetch_site: str | None, is_read: bool, is_let_in: bool) -> None:
    """SE-99: not for a page of another port of the host, and not for what changes something and names no page."""
    logins = Logins(Ends())
    cookies = opened(logins)
    if is_let_in:
        assert logins.resolved(shown(cookies, origin, fetch_site, is_read=is_read)).login is not None
    else:
        with pytest.raises(NotAuthenticatedError, match="came from another page"):
            logins.resolved(shown(cookies, origin, fetch_site, is_read=is_read))


@pytest.mark.parametrize(
    ("user", "sender", "is_let_in"), [(1000, 1000, True), (1000, 1001, False), (1000, None, False), (None, 1001, True)]
)
def test_a_cookie_counts_for_its_user_only(user: int | None, sender: int | None, is_let_in: bool) -> None:
    """SE-99: a server of another user on another port gets the cookie from the browser, and can name any page itself."""
    logins = Logins(Ends())
    cookie = logins.open("t", PAGE, "a", 0, NEVER, user)
    credentials = structs.replace(shown(f"{cookie.name}={cookie.value}"), sender=sender)
    if is_let_in:
        assert logins.resolved(credentials).bearer == "t"
    else:
        with pytest.raises(NotAuthenticatedError, match="user 1000 came from another user"):
            logins.resolved(credentials)


def test_a_login_ends() -> None:
    """SE-98: with its token, after half a day, and when the page logs out; who has come by it is told then."""
    ends = Ends()
    logins = Logins(ends)
    soon, cookies = logins.open("t", PAGE, "a", 0, 60 * S_NS), opened(logins)
    assert soon.max_age_s == 60
    login = logins.resolved(shown(cookies)).login
    assert login is not None
    assert (login.expires_ns, login.is_over) == (LIFE_S * S_NS, False)
    gone = logins.close(cookies)
    assert (gone.value, gone.max_age_s, login.is_over, ends.count) == ("", 0, True, 1)
    assert logins.resolved(shown(cookies)).login is None
    assert logins.close("nothing").max_age_s == 0


def test_a_cookie_that_no_script_reads() -> None:
    """SE-98: it has the attributes that keep it from scripts, from other sites, and from the network."""
    cookie = Logins(Ends()).open("t", PAGE, "a", 0, NEVER)
    assert cookie.header(is_secure=True).split("; ")[1:] == [
        "Path=/", f"Max-Age={LIFE_S}", "HttpOnly", "SameSite=Strict", "Secure",
    ]  # fmt: skip
    assert "Secure" not in cookie.header(is_secure=False)


def test_logins_are_bounded() -> None:
    """One identity has a quarter of them: a further login takes the slot of its oldest; those that have ended leave none."""
    ends = Ends()
    logins = Logins(ends)
    first = opened(logins)
    for _ in range(LOGINS_MAX):
        opened(logins)
    assert ends.count == LOGINS_MAX + 1 - LOGINS_MAX // 4
    assert logins.resolved(shown(first)).login is None
    other = opened(logins, "identity b")
    assert logins.resolved(shown(other)).login is not None
    late = opened(logins, "identity c", now_s=LIFE_S)
    assert len(logins._open) == 1
    assert logins.resolved(shown(late)).login is not None
