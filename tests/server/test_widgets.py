"""Declared channels and their widgets over HTTP."""

import base64
import hashlib
from pathlib import Path
from typing import cast

import pytest

from tests.harness.replies import answers, calls, slow_reply
from tests.server.server_harness import LIST, Json, ServerHarness, Step, run
from timeloom.bundles.bundle import BundleWidget
from timeloom.core.stream.declared import DeclaredChannel
from timeloom.server.auth.access_policy import AccessPolicy

CHART = DeclaredChannel(name="chart", mime="application/json", widget="bars")
TEXT = '{"one": 1, "two": 2}'
REPLY = f"<channel:chart>\n{TEXT}\n</channel:chart>\n"


def with_widgets(stage: ServerHarness) -> ServerHarness:
    stage.channels = (CHART,)
    stage.widgets = {
        ("", "bars"): BundleWidget(html="<p>bars</p>", title="Bars"),
        ("ferries", "bars"): BundleWidget(html="<p>ferries</p>"),
    }
    return stage


def test_a_widget_is_served_for_a_frame_without_origin_and_network(tmp_path: Path) -> None:
    async def check() -> None:
        async with with_widgets(ServerHarness(tmp_path)).serve() as served:
            found = await served.http.get("/widgets/bars")
            assert found.text.endswith("<p>bars</p>")
            assert found.headers["content-type"] == "text/html; charset=utf-8"
            policy = found.headers["content-security-policy"].split("; ")
            assert {"sandbox allow-scripts", "default-src 'none'", "frame-ancestors 'self'"} <= {*policy}
            assert (await served.http.get("/widgets/bars?bundle=ferries")).text.endswith("<p>ferries</p>")
            me = (await served.ann.get("/me")).json()
            assert me["widgets"] == [
                {"bundle": "", "name": "bars", "title": "Bars"},
                {"bundle": "ferries", "name": "bars", "title": "bars"},
            ]

    run(check)


def test_only_the_scripts_of_the_document_itself_run_in_a_widget(tmp_path: Path) -> None:
    first, second = "show('<b>&amp;</b>');\n", "draw()"
    html = f"<p onclick='hit()'>x</p><script>{first}</script>\r\n<SCRIPT type=module>{second}</SCRIPT><p>y</p>"

    async def check() -> None:
        stage = with_widgets(ServerHarness(tmp_path))
        stage.widgets = {("", "bars"): BundleWidget(html=html.replace("\n", "\r\n"))}
        async with stage.serve() as served:
            policy = (await served.http.get("/widgets/bars")).headers["content-security-policy"].split("; ")
            [scripts] = [one for one in policy if one.startswith("script-src ")]
            assert "unsafe" not in scripts
            assert len(scripts.split()) == 4  # the directive, the guard, and both scripts
            for script in (first, second):
                assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in scripts

    run(check)


@pytest.mark.parametrize("path", ["/widgets/pie", "/widgets/bars?bundle=other", "/widgets/bars?bundle=" + "x" * 65])
def test_an_unknown_widget_is_a_problem(tmp_path: Path, path: str) -> None:
    async def check() -> None:
        async with with_widgets(ServerHarness(tmp_path)).serve() as served:
            found = await served.http.get(path)
            assert (found.status_code, found.json()["code"]) in ((404, "widget_unknown"), (400, "request_malformed"))
            assert "x-frame-options" in found.headers

    run(check)


def test_pages_of_allowed_origins_may_embed_a_widget(tmp_path: Path) -> None:
    async def check() -> None:
        stage = with_widgets(ServerHarness(tmp_path))
        stage.rules = AccessPolicy(allow_origins=("https://shop.example",))
        async with stage.serve() as served:
            policy = (await served.http.get("/widgets/bars")).headers["content-security-policy"]
            assert policy.endswith("frame-ancestors 'self' https://shop.example")

    run(check)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_channel_is_streamed_live_and_then_stored(tmp_path: Path, chunk: int) -> None:
    async def check() -> None:
        first: Step = {"reply": REPLY + calls("t.look"), "chunk": chunk}
        stage = with_widgets(ServerHarness(tmp_path, first, answers("Done.")))
        live, stored = "", list[object]()
        async with stage.serve() as served, served.ann.post_and_stream("go") as events:
            async for frame in events:
                if frame.event == "chat.delta" and frame.data["channel"] == "chart":
                    assert not stored
                    live += str(frame.data["text"])
                if frame.event == "chat.block" and "react.channel" in str(frame.data["block"]):
                    stored.append((frame.id > 0, frame.data["block"]))
        assert live == TEXT
        ((has_id, block),) = cast(list[tuple[bool, Json]], stored)
        assert (has_id, block["text"], block["mime"]) == (True, TEXT, "application/json")
        assert block["meta"] == {"channel": "chart", "round": 1, "widget": "bars"}

    run(check)


def test_a_reader_that_joins_later_gets_the_text_once(tmp_path: Path) -> None:
    async def check() -> None:
        stage = with_widgets(ServerHarness(tmp_path, slow_reply(REPLY + answers("x" * 400), delay_ms=10, chunk=4)))
        async with stage.serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            for _ in range(2):
                live = ""
                async with served.ann.stream_conversation(conversation) as events:
                    async for frame in events:
                        if frame.event == "chat.delta" and frame.data["channel"] == "chart":
                            live += str(frame.data["text"])
                        if live == TEXT:
                            break
                assert live == TEXT
            await served.ann.wait_for_state(conversation, "idle")
            async with served.ann.stream_conversation(conversation) as events:
                async for frame in events:
                    assert frame.event != "chat.delta"
                    if frame.event == "conv.status":
                        break
            blocks = await served.ann.blocks(conversation)
            assert [one["text"] for one in blocks if one["type"] == "react.channel"] == [TEXT]
            exported = (await served.ann.get(f"{LIST}/{conversation}/timeline", form="export")).json()
            (block,) = [one for one in exported["blocks"] if one["type"] == "react.channel"]
            assert block["path"].endswith(".channel.chart.1")

    run(check)
