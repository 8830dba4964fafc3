"""`timeloom inspect`: a timeline block by block, and one block in full."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.pseudo_terminal import PseudoTerminal
from timeloom.core.blocks import (
    Attachment,
    CompactionEnded,
    CompactionRequested,
    ConversationStarted,
    Cut,
    Pinned,
    Pruned,
    RangeSummary,
    RoundStarted,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import ConversationId, MessageId, TurnId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.stores.sqlite import SqliteStore

HOSTILE = "\x1b[2J\x9b31m\u202e"
CONVERSATION = ConversationId("conv_1794750199577_v0k0u9lf")


def inspect(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "timeloom", "inspect", "--data-dir", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "timeloom", "demo", "--data-dir", str(folder)]
    subprocess.run(command, capture_output=True, check=True)
    return folder


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two turns with pruned, summarised, large and hostile blocks."""
    folder = tmp_path_factory.mktemp("odd")
    one, two = TurnId("turn_1"), TurnId("turn_2")
    path = "fi:turn_1.user.attachments/photo.png"

    async def write() -> None:
        async with await SqliteStore.open(folder) as store:
            blocks = [
                (NO_TURN, ConversationStarted(tenant="t", project="p", user="u")),
                (one, TurnStarted(n=1)),
                (one, UserPrompt(text=f"hello {HOSTILE}\tworld " + "x" * 100_000)),
                (one, Attachment(artifact_path=path, mime="image/png", data=b"\x89PNG")),
                (one, RoundStarted(round=1)),
                (two, TurnStarted(n=2)),
                (two, UserPrompt(text="again")),
                (two, Pruned(cuts=(Cut(4, 4, "a photo"),))),
                (two, RangeSummary(covered_turn_ids=(), first_seq=2, last_seq=3, text="we said hello")),
            ]
            drafts = [Draft(turn, "2026-02-09T02:14:32Z", block) for turn, block in blocks]
            await store.append(CONVERSATION, 0, drafts)

    asyncio.run(write())
    return folder


def test_every_block_is_a_line_with_its_place_type_and_path(demo: Path) -> None:
    done = inspect(demo)
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines() if "cache point" not in line]
    assert [int(line[0]) for line in lines] == list(range(1, 39))
    assert lines[2][2] == "user.prompt"
    assert lines[2][5].endswith(".user.prompt")
    assert re.search(r"^ +19 \S+ react.tool.result +\d+ +\d+ hidden ", done.stdout, re.MULTILINE)
    assert done.stdout.splitlines()[-1].strip("- ") == "cache point: tail"
    assert "\x1b" not in done.stdout


def test_the_rows_as_json_say_what_prompts_show(odd: Path) -> None:
    rows = [json.loads(line) for line in inspect(odd, "--json").stdout.splitlines()]
    assert [row["sight"] for row in rows] == [
        "silent", "summed up", "summed up", "pruned", "shown", "shown", "shown", "silent", "shown",
    ]  # fmt: skip
    assert [row["cache_point"] for row in rows if row["cache_point"]] == ["previous turns", "tail"]
    assert rows[2]["size_bytes"] > 100_000
    assert rows[2]["tokens"] > 1_000


def test_pins_and_requested_compactions_are_shown(tmp_path: Path) -> None:
    turn = TurnId("turn_1")
    path = "ar:turn_1.user.prompt"
    blocks = [
        ConversationStarted(tenant="t", project="p", user="u"),
        TurnStarted(n=1),
        UserPrompt(text="the code is 7141"),
        Pinned(target=path, tokens=9, author="user"),
        CompactionRequested(message_id=MessageId("r1"), text=f"prices {HOSTILE}"),
        RangeSummary(covered_turn_ids=(turn,), first_seq=2, last_seq=3, text="sum"),
        CompactionEnded(message_id=MessageId("r1"), outcome="completed", turns=1, covered_tokens=90, summary_tokens=9),
        Pinned(target=path, pinned=False, text="too large", author="runtime"),
        Pinned(target=path, tokens=9, author="user"),
    ]

    async def write() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            drafts = [Draft(turn if n else NO_TURN, "2026-02-09T02:14:32Z", block) for n, block in enumerate(blocks)]
            await store.append(CONVERSATION, 0, drafts)

    asyncio.run(write())
    rows = [json.loads(line) for line in inspect(tmp_path, "--json").stdout.splitlines()]
    assert rows[2]["sight"] == "pinned"
    summaries = [row["gist"] for row in rows]
    assert summaries[3] == f"{path}, 9 tokens"
    assert summaries[4].startswith("keeps 2 rounds: prices ")
    assert summaries[6] == "compacted 1 turn: 90 tokens became a summary of 9 tokens"
    assert summaries[7] == f"unpinned {path}: too large"
    assert "\x1b" not in "".join(summaries)


def test_rows_are_chosen_by_turn_and_type(odd: Path) -> None:
    def seqs(*options: str) -> list[int]:
        return [json.loads(line)["seq"] for line in inspect(odd, "--json", *options).stdout.splitlines()]

    assert seqs("--turn", "turn_2") == seqs("--turn", "2") == seqs("--turn", "t2") == [6, 7, 8, 9]
    assert seqs("--type", "user.*") == [3, 4, 7]
    assert seqs("--turn", "1", "--type", "user.prompt") == [3]


def test_one_block_is_shown_in_full_by_seq_or_path(odd: Path) -> None:
    for what in ("3", "ar:turn_1.user.prompt", "ar:t1.user.prompt"):
        done = inspect(odd, what)
        assert done.returncode == 0
        assert "type: user.prompt" in done.stdout
        assert "sight: summed up" in done.stdout
        assert "hello ␛[2J\ufffd31m\ufffd\tworld xxx" in done.stdout
        assert done.stdout.count("x") > 100_000
    assert json.loads(inspect(odd, "--json", "3").stdout)["text"].startswith(f"hello {HOSTILE}\tworld xxx")
    assert "characters of base64" in inspect(odd, "4").stdout


def test_what_is_not_there_is_said(odd: Path, tmp_path: Path) -> None:
    for what in ("99", "0", "ar:turn_9.user.prompt"):
        done = inspect(odd, what)
        assert (done.returncode, done.stdout) == (1, "")
        assert "expected a seq from 1 to 9 or a path [entry_unknown]" in done.stderr
    assert "turns are numbered from 1 to" in inspect(odd, "--turn", "9").stderr
    assert "conversation_unknown" in inspect(odd, "--conversation", "conv_nope").stderr
    assert inspect(tmp_path).returncode == 2


def test_an_empty_folder_has_nothing_to_inspect(tmp_path: Path) -> None:
    async def make() -> None:
        async with await SqliteStore.open(tmp_path):
            pass

    asyncio.run(make())
    done = inspect(tmp_path)
    assert done.returncode == 2
    assert "there is no conversation yet" in done.stderr


@pytest.mark.parametrize("columns", [40, 80, 160])
def test_on_a_terminal_a_block_is_one_line(odd: Path, columns: int) -> None:
    with PseudoTerminal("inspect", "--data-dir", str(odd), columns=columns) as terminal:
        assert terminal.wait_exit() == 0
        lines = terminal.text.splitlines()
        assert len(lines) == 2 + 9 + 2 + 1
        assert [line.split()[0] for line in lines if "cache point" not in line][2:-1] == [str(n) for n in range(1, 10)]
        assert "tokens" in lines[1]
        assert ("pruned" in terminal.text, "time" in lines[1], "path" in lines[1]) == (
            True,
            columns >= 80,
            columns >= 160,
        )
        assert b"\x1b" not in terminal.raw


def test_a_conversation_can_be_named_by_itself(odd: Path) -> None:
    assert inspect(odd, CONVERSATION).stdout == inspect(odd, "--conversation", CONVERSATION).stdout != ""
    assert inspect(odd, CONVERSATION, "--conversation", CONVERSATION).returncode == 2
