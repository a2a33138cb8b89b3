"""The handbook and the rules as web pages at ``/docs``: text alone, which runs no script, for everybody (SE-62)."""

from __future__ import annotations

from functools import cache, partial
from hashlib import sha256
from html import escape
from math import inf
from typing import TYPE_CHECKING

import trio
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ykactor.handbook import INDEX, Document, anchors, load, sections, target
from ykactor.surfaces.http.published import Pages
from ykactor.surfaces.http.replies import Page, reply_unless_known

if TYPE_CHECKING:  # takes 0.1 s to load, which only a daemon needs whose documents are read
    from markdown_it.token import Token

_PATH, _PICTURES = "/docs", "surfaces/page/"
#: Styles and pictures of this origin, and nothing else.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} - ykactor</title>
<link rel="icon" href="/ui/icon.svg">
<link rel="stylesheet" href="/ui/colours.css">
<link rel="stylesheet" href="/ui/docs.css">
</head>
<body>
<nav aria-label="Documents"><a href="/ui/">The page</a>
{links}
</nav>
<main>
{body}</main>
</body>
</html>
"""


def document_routes() -> list[BaseRoute]:
    """Each document below ``/docs``; that of the list of chapters is ``/docs`` itself."""
    answer = partial(_answer, Pages())
    return [Route(_PATH, answer), Route(f"{_PATH}/{{name:path}}", answer)]


async def _answer(pages: Pages, request: Request) -> Response:
    document = load().get(request.path_params.get("name") or INDEX)
    if document is None:
        raise HTTPException(404)
    page = await pages.get((document.name,), partial(trio.to_thread.run_sync, _page, document))
    tag = f'W/"{sha256(b"".join(page.parts)).hexdigest()[:16]}"'
    return await reply_unless_known(request, page, "text/html; charset=utf-8", _HEADERS, tag)


def _page(document: Document) -> Page:
    """The page of a document, which is made once for each daemon."""
    links = "\n".join(
        f'<a href="{address_of(other)}"{" aria-current=page" if other is document else ""}>{escape(other.title)}</a>'
        for other in load().values()
    )
    text = _FRAME.format(title=escape(document.title), links=links, body=rendered(document))
    return Page(200, [text.encode()], fresh_s=inf)


def address_of(document: Document) -> str:
    """The path of a document in URLs."""
    return _PATH if document.name == INDEX else f"{_PATH}/{document.name}"


def rendered(document: Document) -> str:
    """The text of a document as HTML: its headings have anchors, its links lead to other documents or into the web."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(document.text)
    opened = [index for index, token in enumerate(tokens) if token.type == "heading_open"]
    titles = [tokens[index + 1].content for index in opened]
    for index, anchor in zip(opened, anchors(titles), strict=True):
        tokens[index].attrSet("id", anchor)
    for token in tokens:
        if token.children:
            token.children = _led(document, token.children)
    html: str = markdown.renderer.render(tokens, markdown.options, {})
    return html


@cache
def _rules() -> dict[str, str]:
    """The addresses of the rules by code."""
    found = dict[str, str]()
    for document in load().values():
        titles = [section.title for section in sections(document)] if document.name.startswith("rules/") else []
        codes = (title.partition(" ")[0] for title in titles)
        found |= {code: f"{address_of(document)}#{anchor}" for code, anchor in zip(codes, anchors(titles), strict=True)}
    return found


class _Link(Struct):
    """The link in whose text a token is; without an address it is not one."""

    address: str | None = None


def _led(document: Document, tokens: list[Token]) -> list[Token]:
    """The tokens of a paragraph with the addresses that links have here; what leads to files of the source tree is no
    link, and the code of a rule is one."""
    from markdown_it.token import Token

    kept, link = list[Token](), _Link()
    for token in tokens:
        if token.type == "link_open":
            link = _Link(_address(document, str(token.attrGet("href"))))
            token.attrSet("href", link.address or "")
        elif token.type == "image":
            token.attrSet("src", f"/ui/{str(token.attrGet('src')).partition(_PICTURES)[2]}")
        elif token.type == "code_inline" and (rule := _rules().get(token.content.removeprefix("ykactor rule "))):
            kept += [Token("link_open", "a", 1, attrs={"href": rule}), token, Token("link_close", "a", -1)]
            continue
        if token.type not in ("link_open", "link_close") or link.address is not None:
            kept.append(token)
    return kept


def _address(document: Document, link: str) -> str | None:
    if link.startswith(("https://", "http://")):
        return link
    if (found := target(document, link)) is None:
        return None
    other, anchor = found
    return f"{address_of(other)}#{anchor}" if anchor else address_of(other)
