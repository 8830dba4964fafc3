"""The examples of the page on the server: each request is sent, and its answer has the shape that the page shows."""

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, cast

from markdown_it import MarkdownIt

from tests.harness.replies import answers
from tests.harness.repository import ROOT
from tests.server.server_harness import LIST, ApiClient, ServerHarness, calls, run

PAGES = [ROOT / "docs" / "reference" / name for name in ("http-api.md", "http-conversations.md")]

EQUAL = frozenset({"author", "ended", "mime", "origin", "purpose", "reaction", "state", "type", "verdict"})
"""Fields with few values, which must equal those on the page."""

WRITES = calls("react.write", path="outputs/ferries.md", content="# Ferries leave at 9:00.\n")


def examples() -> list[tuple[str, str]]:
    """Each request with the answer that follows it."""
    tokens = [token for page in PAGES for token in MarkdownIt("commonmark").parse(page.read_text())]
    fences = [token for token in tokens if token.type == "fence"]
    return [(one.content, two.content) for one, two in pairwise(fences) if (one.info, two.info) == ("http", "json")]


async def answered(client: ApiClient, request: str) -> object:
    line, _, body = request.strip().partition("\n")
    method, url = line.split(" ")
    sent = json.loads(body) if body else None
    response = await client.http.request(method, url, json=sent, headers=client.headers)
    assert response.status_code in (200, 201, 202), (line, response.text)
    return response.json()


class Ids(NamedTuple):
    """The placeholders in braces on the page."""

    conversation_id: str
    turn_id: str
    rerun_id: str = "{rerun_id}"

    def put_in(self, text: str) -> str:
        for name, value in self._asdict().items():
            text = text.replace(f"{{{name}}}", value)
        return text


def assert_alike(got: object, shown: object, ids: Ids, where: str) -> None:
    """Objects have the same keys, lists the same length, and values the same type; a text with an id in it is equal."""
    if isinstance(shown, dict):
        fields, expected = cast(dict[str, object], got), cast(dict[str, object], shown)
        # A model's usage is shown in part, and null stands for what is longer than an example.
        assert where.endswith(".usage") or sorted(fields) == sorted(expected), where
        for name in fields.keys() & expected.keys():
            assert_alike(fields[name], expected[name], ids, f"{where}.{name}")
    elif isinstance(shown, list):
        rows, expected_rows = cast(list[object], got), cast(list[object], shown)
        assert len(rows) == len(expected_rows) or where.endswith(".segments"), where
        for n, (row, expected_row) in enumerate(zip(rows, expected_rows, strict=False)):
            assert_alike(row, expected_row, ids, f"{where}[{n}]")
    elif isinstance(shown, str) and (any(value in shown for value in ids) or where.rpartition(".")[2] in EQUAL):
        assert got == shown, where
    elif shown is not None:
        assert type(got) is type(shown), (where, got, shown)


async def until_rerun_ended(client: ApiClient, fork: str) -> None:
    """Wait for the run itself: between its turns, and before the first, the fork's own status is idle already."""
    while True:
        compared = (await client.get(f"{LIST}/{fork}/comparison")).json()
        if compared["status"]["state"] == "idle":
            return
        await asyncio.sleep(0.01)


def test_every_example_is_answered_as_the_page_says(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, WRITES, answers("At nine.")).serve() as served:
            said = await served.ann.send_message("When do ferries leave?")
            ids = Ids(str(said["conversation_id"]), str(said["turn_id"]))
            await served.ann.wait_for_state(ids.conversation_id, "idle")
            found = examples()
            assert len(found) > 10
            for request, shown in found:
                got = await answered(served.ann, ids.put_in(request))
                assert_alike(got, json.loads(ids.put_in(shown)), ids, request.splitlines()[0])
                if "/rerun\n" in request:
                    ids = ids._replace(rerun_id=cast(dict[str, str], got)["conversation_id"])
                    await until_rerun_ended(served.ann, ids.rerun_id)

    run(check)
