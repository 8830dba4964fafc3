"""`/docs` shows the OpenAPI document without scripts and without files from elsewhere."""

import re
from pathlib import Path

from tests.server.contract_check import document
from tests.server.server_harness import ServerHarness, run
from timeloom.server.endpoints import ENDPOINTS
from timeloom.server.openapi.document import build_document
from timeloom.server.openapi.page import render_page


def page() -> str:
    return render_page(build_document(ENDPOINTS)).decode()


def test_the_page_is_served_to_everybody_under_its_own_policy(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            response = await served.http.get("/docs")
            assert (response.status_code, response.text) == (200, page())
            assert response.headers["content-type"].startswith("text/html")
            policy = response.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; style-src 'sha256-")
            assert "unsafe" not in policy
            assert response.headers["content-encoding"] == "gzip"

    run(check)


def test_the_page_has_no_script_and_loads_nothing() -> None:
    assert re.findall(r"<(?:script|img|link|iframe)\b|\bon\w+=|\bsrc=|@import|url\(", page()) == []
    assert set(re.findall(r'href="([^#"][^"]*)"', page())) == {"openapi.json"}


def test_the_page_has_every_route_and_every_schema() -> None:
    anchors = set(re.findall(r'id="([^"]+)"', page()))
    assert {one.name for one in ENDPOINTS} <= anchors
    assert {f"schema-{name}" for name in document()["components"]["schemas"]} <= anchors
    assert set(re.findall(r'href="#([^"]+)"', page())) <= anchors


def test_the_page_says_what_parameters_accept_and_which_errors_there_are() -> None:
    assert "integer, from 1, to 1000, default <code>500</code>" in page()
    assert "The owner; empty means the caller." in page()
    assert "For <code>model</code>: all entries up to this seq" in page()
    assert "<li><code>pins_full</code>: The pinned blocks would exceed" in page()


def test_text_of_the_document_is_no_markup() -> None:
    shown = render_page(build_document(ENDPOINTS).replace(b"The HTTP API of timeloom.", b"<b>&"))
    assert b"<b>" not in shown
    assert b"&lt;b&gt;&amp;" in shown
