"""The handbook and the rules at ``/docs``: text that runs nothing, for everybody."""

import re
from pathlib import Path

from callers import control_of
from restdaemon import rest_daemon

from ykactor import handbook
from ykactor.surfaces.http.documents import address_of, rendered


async def test_everybody_may_read_the_documents(tmp_path: Path) -> None:
    """SE-62: without a proof, also beside another UI; there is 304 for what a browser has, and 404 for other names."""
    async with rest_daemon(admit=control_of().admit, web_root=tmp_path) as rest:
        index, chapter = await rest.ask("/docs"), await rest.ask("/docs/jobs")
        assert (index.status, chapter.status) == (200, 200)
        assert b'<h1 id="handbook">' in index.body
        assert b'<h2 id="a-day-with-slurm">' in chapter.body
        again = await rest.ask("/docs/jobs", if_none_match=chapter.headers["etag"])
        assert (again.status, again.body) == (304, b"")
        for path in ("/docs/no", "/docs/../secret", "/docs/rules", "/docs/handbook/jobs.md"):
            assert (await rest.ask(path)).status == 401, path
    async with rest_daemon() as rest:
        assert (await rest.ask("/docs/no")).status == 404


async def test_the_documents_run_nothing() -> None:
    """SE-97: no script at all; styles and pictures of this origin; every picture and style is there."""
    async with rest_daemon() as rest:
        answer = await rest.ask("/docs/page")
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
        assert "script-src" not in policy
        files = re.findall(r'(?:src|rel="\w+" href)="([^"]+)"', answer.body.decode())
        assert len(files) >= 5
        assert [path for path in files if (await rest.ask(path)).status != 200] == []


def test_links_lead_to_documents_and_headings() -> None:
    """Links to files of the source tree become text; markup in a text stays text."""
    pages = {address_of(document): rendered(document) for document in handbook.load().values()}
    anchors = {address: set(re.findall(r'<h\d id="([^"]+)"', page)) for address, page in pages.items()}
    links = [link for page in pages.values() for link in re.findall(r'<a href="([^"]*)"', page)]
    inside = [link.partition("#") for link in links if not link.startswith("https://")]
    assert len(inside) > 50
    assert [link for link in inside if link[0] not in pages or (link[2] and link[2] not in anchors[link[0]])] == []
    assert '<a href="/docs/rules/security#se-62-a-path-needs-a-role"><code>ykactor rule SE-62</code></a>' in pages["/docs/page"]
    odd = handbook.Document("odd", "handbook/odd.md", "# <script>\n\n[x](javascript:1) [y](//evil) [z](../cli.py) <b> `<i>`\n")
    assert re.findall(r"<(?!/?(?:h1|p|code)\b)", rendered(odd)) == []
