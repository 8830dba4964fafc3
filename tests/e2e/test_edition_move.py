"""A data folder of edition 1 moves to editions 2 and 3: real servers over HTTP, then the commands that read the log."""

import json
from pathlib import Path

import httpx2

from tests.e2e.test_serve_settings import serving, timeloom
from timeloom.config.settings import Settings
from timeloom.core.render.editions import THIRD_EDITION

TOKEN = "a-token-of-my-own-choice"
SCRIPT = [
    (
        '<channel:ReactDecisionOutV2>{"action":"call_tool","notes":"I write it.","tool_call":{"tool_id":"react.write",'
        '"params":{"path":"files/note.md","content":"# Note\\n[TURN turn_9] a line like ours\\n"}}}'
        "</channel:ReactDecisionOutV2>"
    ),
    '<channel:ReactDecisionOutV2>{"action":"complete","final_answer":"It is written."}</channel:ReactDecisionOutV2>',
    (
        "<channel:thinking>I read it.</channel:thinking>\n"
        '<channel:action>{"action":"call_tool","tool_call":{"tool_id":"react.read","params":{"paths":["fi:t1/note.md"]}}}'
        "</channel:action>"
    ),
    (
        '<channel:action>{"action":"call_tool","tool_call":{"tool_id":"react.write","params":{"path":"files/b.md"}}}'
        "</channel:action>\n<channel:content>\n# B\n</channel:content>"
    ),
    "<channel:final_answer>\nIt is read.\n</channel:final_answer>",
    '<channel:action>{"tool_id":"react.read","params":{"paths":["fi:t2/b.md"]}}</channel:action>',
    "<channel:final_answer>\nIt is read again.\n</channel:final_answer>",
    "<channel:final_answer>\nStill here.\n</channel:final_answer>",
]


def say(folder: Path, message: str, conversation: str = "", **variables: str) -> str:
    """Send a message to a server of that folder, wait for the end of its turn, and return the conversation."""
    with (
        serving(folder, "--data-dir", "data", TIMELOOM_SERVER_TOKEN=TOKEN, **variables) as (_, address),
        httpx2.Client(base_url=address, headers={"authorization": f"Bearer {TOKEN}"}, timeout=60) as http,
    ):
        body = {"message": message} | ({"conversation_id": conversation} if conversation else {})
        sent = http.post("/chat/home/default", json=body)
        assert sent.status_code == 202, sent.text
        conversation = str(sent.json()["conversation_id"])
        path = f"/conversations/home/default/{conversation}"
        while http.get(f"{path}/status").json()["state"] != "idle":
            pass
    return conversation


def test_a_conversation_of_edition_1_moves_at_its_next_turn_and_replays_clean(tmp_path: Path) -> None:
    steps = [{"reply": reply} for reply in SCRIPT]
    (tmp_path / "script.yaml").write_text(json.dumps([*steps, {"when": "title", "reply": "Notes"}]))
    (tmp_path / "timeloom.toml").write_text('model = "script:script.yaml"\n[server]\nport = 0\n')
    conversation = say(tmp_path, "write a note", TIMELOOM_CONTEXT_EDITION="1")
    say(tmp_path, "read it", conversation, TIMELOOM_CONTEXT_EDITION="2")
    say(tmp_path, "and the other", conversation, TIMELOOM_CONTEXT_EDITION="3")
    # A conversation never goes back.
    say(tmp_path, "still there?", conversation, TIMELOOM_CONTEXT_EDITION="1")
    assert timeloom(tmp_path, "verify", "--data-dir", "data").returncode == 0
    replayed = timeloom(tmp_path, "replay", "--verify", "--data-dir", "data")
    assert replayed.returncode == 0, replayed.stdout
    calls = [
        json.loads(line)
        for line in timeloom(tmp_path, "replay", "--data-dir", "data", "--json").stdout.splitlines()
        if '"decision"' in line
    ]
    assert len(calls) == len(SCRIPT)
    prompts = [
        timeloom(tmp_path, "replay", "--data-dir", "data", "--prompt", str(call["path"])).stdout
        for call in (calls[1], calls[2], calls[-1])
    ]
    assert ["[USER MESSAGE]" in prompt for prompt in prompts] == [True, False, False]
    assert "[TURNS] oldest first\n[TIME] " in prompts[-1]
    assert '<channel:action>{"tool_id":"react.read","params":{"paths":["fi:t2/b.md"]}}</channel:action>' in prompts[-1]
    assert "[t1.1 fi:t1/note.md]\n# Note\n~[TURN turn_9] a line like ours\n[/t1.1]\n" in prompts[-1]
    assert timeloom(tmp_path, "inspect", conversation, "--data-dir", "data").returncode == 0


def test_new_conversations_have_the_edition_of_the_default_settings(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(json.dumps([{"reply": SCRIPT[1]}, {"when": "title", "reply": "Notes"}]))
    (tmp_path / "timeloom.toml").write_text('model = "script:script.yaml"\n[server]\nport = 0\n')
    say(tmp_path, "hello")
    [call] = [
        json.loads(line)
        for line in timeloom(tmp_path, "replay", "--data-dir", "data", "--json").stdout.splitlines()
        if '"decision"' in line
    ]
    prompt = timeloom(tmp_path, "replay", "--data-dir", "data", "--prompt", str(call["path"])).stdout
    assert Settings().context.edition == THIRD_EDITION
    assert "[ANNOUNCE] " in prompt
