"""Authorization: every operation of the table, requested by permitted and by unpermitted users."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from starlette.requests import HTTPConnection

from tests.harness.replies import answers
from tests.server.server_harness import CHAT, LIST, Json, RunningServer, ServerHarness, calls, repeated_reply, run
from timeloom.bundles.bundle import BundleWidget
from timeloom.server.auth.access_policy import AccessPolicy
from timeloom.server.auth.authenticate import cookie_name
from timeloom.server.authorize import Permission
from timeloom.server.endpoints import ENDPOINTS, Endpoint
from timeloom.server.http.uploads import UploadLimits
from timeloom.testing import ScriptedModel

pytestmark = pytest.mark.slow

EVER = {"start": "2000-01-01T00:00:00.000000Z", "end": "2100-01-01T00:00:00.000000Z"}

BODIES: dict[str, Json] = {
    "post_login": {"token": "ann"},
    "post_message": {"message": "hello"},
    "post_event": {"kind": "followup", "text": "hello"},
    "post_fetch": {"conversation_id": "<conversation_id>"},
    "post_conversations_in_period": {**EVER},
    "post_by_rn": {"rn": "<rn>"},
    "post_title": {"title": "A title"},
    "post_feedback": {"reaction": "ok"},
    "post_turns_with_feedbacks": {},
    "post_fork": {},
    "post_rerun": {"seq": 3},
    "post_erase": {"all": True},
    "post_pin": {"path": "ar:<turn_id>.user.prompt"},
    "post_approval": {"approved": True},
    "post_run": {
        "threadId": "<conversation_id>",
        "runId": "run",
        "messages": [{"id": "m", "role": "user", "content": "hello"}],
    },
    "post_completion": {
        "model": "timeloom",
        "messages": [{"role": "user", "content": "hello"}],
        "metadata": {"conversation_id": "<conversation_id>"},
    },
}
"""A body for each operation that takes one; placeholders in angle brackets refer to the conversation."""

QUERIES: dict[str, dict[str, str]] = {
    "search_conversations": {"words": "sesame"},
    "get_file": {"path": "<path>"},
    "get_artifact_url": {"path": "<path>"},
}
"""Path suffixes of the operations that need one."""

FITTING: dict[str, int] = {"post_approval": 409, "delete_rerun": 409, "get_comparison": 404}
"""What an operation answers where nothing waits for it, or where there is nothing to compare."""

INSIDE: Mapping[str, Permission] = {"post_fetch": "decider", "post_by_rn": "decider", "post_completion": "owner"}
"""Operations whose body names the conversation; without permission for it, they answer that it does not exist."""

WRITES_INSIDE = frozenset({"post_completion", "post_run"})
"""Operations whose body names the conversation of the message; those who may only read it are refused."""

PROJECT = {"x-timeloom-tenant": "home", "x-timeloom-project": "demo"}
"""The project, for operations whose address names none."""

STRANGERS = ("project", "tenant", "tenant-admin")
"""Users of another project and another tenant, and an admin of the other tenant."""

MEMBERS = frozenset({"bob", "ann", "approver", "admin", "operator"})

ALLOWED: Mapping[Permission, frozenset[str]] = {
    "anybody": MEMBERS | {"", "wrong", *STRANGERS},
    "known": MEMBERS,
    "operator": frozenset({"operator"}),
    "member": MEMBERS,
    "admin": frozenset({"admin", "operator"}),
    "owner": frozenset({"ann", "admin", "operator"}),
    "reader": frozenset({"ann", "approver", "admin", "operator"}),
    "decider": frozenset({"ann", "approver", "admin", "operator"}),
}
"""Who may; the conversation is ann's, and the empty token is none."""

SECRET = "sesame"
"""Text of the conversation that no answer to an unpermitted user may contain."""


class Target(NamedTuple):
    """Ann's conversation and its content."""

    conversation_id: str
    turn_id: str
    rn: str
    path: str


def may(operation: Endpoint, token: str) -> bool:
    if operation.name in WRITES_INSIDE and token == "approver":
        return False
    if operation.name in INSIDE:
        return token in ALLOWED[INSIDE[operation.name]]
    reads = token == "approver" and operation.requires == "owner" and operation.method == "GET"
    return reads or token in ALLOWED[operation.requires]


def refusal(operation: Endpoint, token: str) -> int:
    if token in ("", "wrong"):
        return 401
    if token == "approver" and (operation.requires == "owner" or operation.name in WRITES_INSIDE):
        # Those who may read a conversation know that it exists.
        return 403
    if operation.name in INSIDE and token in ALLOWED[operation.requires]:
        return 404
    return 404 if operation.requires in ("owner", "reader", "decider") else 403


def filled(template: object, target: Target) -> Json:
    text = json.dumps(template)
    for name, value in target._asdict().items():
        text = text.replace(f"<{name}>", value)
    return json.loads(text)


async def asked(served: RunningServer, operation: Endpoint, target: Target, token: str) -> tuple[int, str]:
    """Return the status and the body; of a stream only its beginning."""
    names = target._asdict() | {
        "tenant": "home",
        "project": "demo",
        "call_id": "0123456789ab",
        "model": "timeloom",
        "widget": "bars",
    }
    query = filled(QUERIES.get(operation.name, {}), target)
    async with served.http.stream(
        operation.method,
        operation.path.format(**names),
        params={name: str(value) for name, value in query.items()},
        json=filled(BODIES[operation.name], target) if operation.body_type else None,
        headers={**PROJECT, **(served.client(token).headers if token else {})},
    ) as response:
        if operation.name == "get_stream" and response.status_code == 200:
            return 200, ""
        return response.status_code, (await response.aread()).decode()


async def held(served: RunningServer, message: str = "go") -> str:
    conversation = str((await served.ann.send_message(message))["conversation_id"])
    await served.ann.wait_for_state(conversation, "idle")
    return conversation


async def prepared(served: RunningServer) -> Target:
    conversation = await held(served, SECRET)
    (file,) = (await served.ann.get(f"{LIST}/{conversation}/files")).json()["files"]
    turn = (await served.ann.blocks(conversation))[-1]["turn_id"]
    return Target(conversation, str(turn), file["rn"], file["path"])


def a_stage(folder: Path) -> ServerHarness:
    writes = calls("react.write", path="files/note.md", content=f"open {SECRET}", channel="canvas")
    stage = ServerHarness(folder, writes, repeated_reply(answers("Done.")))
    stage.widgets = {("", "bars"): BundleWidget(html="<p>bars</p>")}
    return stage


@pytest.mark.parametrize("operation", ENDPOINTS, ids=lambda one: one.name)
def test_nobody_gets_what_is_not_theirs(tmp_path: Path, operation: Endpoint) -> None:
    async def check() -> None:
        async with a_stage(tmp_path).serve() as served:
            target = await prepared(served)
            before = await served.ann.blocks(target.conversation_id)
            for token in ("", "wrong", "bob", "approver", *STRANGERS):
                if not may(operation, token):
                    status, said = await asked(served, operation, target, token)
                    assert (token, status) == (token, refusal(operation, token))
                    assert SECRET not in said
            assert await served.ann.blocks(target.conversation_id) == before

    run(check)


@pytest.mark.parametrize("token", ["ann", "admin", "operator", "approver", "bob"])
@pytest.mark.parametrize("operation", ENDPOINTS, ids=lambda one: one.name)
def test_whoever_may_gets_what_they_ask_for(tmp_path: Path, operation: Endpoint, token: str) -> None:
    async def check() -> None:
        async with a_stage(tmp_path).serve() as served:
            status, said = await asked(served, operation, await prepared(served), token)
            assert status == FITTING.get(operation.name, operation.status), said
            if operation.requires == "member" and operation.name not in INSIDE:
                assert SECRET not in said or token == "ann"

    if may(operation, token):
        run(check)


def test_every_operation_has_a_case() -> None:
    assert {one.name for one in ENDPOINTS if one.body_type} == BODIES.keys()
    assert len({one.name for one in ENDPOINTS}) == len(ENDPOINTS)


def test_who_decides_is_a_rule_of_the_server(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.send"), answers("Done."))
        stage.rules = AccessPolicy(approvals="approver")
        async with stage.serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            (waiting,) = cast(list[Json], (await served.ann.wait_for_state(conversation, "waiting"))["approvals"])
            path = f"{LIST}/{conversation}/approvals/{waiting['tool_call_id']}"
            refused = await served.ann.post(path, {"approved": True})
            assert (refused.status_code, refused.json()["code"], stage.sent) == (403, "forbidden", [])
            eve = served.client("approver")
            assert (await eve.post(path, {"approved": True})).status_code == 202
            await served.ann.wait_for_state(conversation, "idle")
            assert stage.sent == [waiting["tool_call_id"]]
            # To decide is not to speak.
            refused = await eve.post(CHAT, {"message": "x", "conversation_id": conversation})
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
            assert "you may read" in refused.json()["detail"]

    run(check)


def test_what_is_not_theirs_looks_like_what_is_not_there(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            conversation = await held(served)
            bob = served.client("bob")
            real, none = await bob.get(f"{LIST}/{conversation}"), await bob.get(f"{LIST}/{conversation}x")
            assert real.json() == {
                key: value.replace(f"{conversation}x", conversation) if isinstance(value, str) else value
                for key, value in none.json().items()
            }

    run(check)


def test_a_conversation_is_found_under_its_own_project_only(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            conversation = await held(served)
            admin = served.client("admin")
            assert (await admin.get(f"{LIST}/{conversation}")).status_code == 200
            assert (await admin.get(f"/conversations/home/other/{conversation}")).status_code == 404
            said = {"message": "x", "conversation_id": conversation}
            assert (await admin.post("/chat/home/other", said)).status_code == 404
            assert (await served.client("bob").post("/chat/home/demo", said)).status_code == 404

    run(check)


def test_a_list_shows_the_callers_own_and_an_admin_may_ask_for_anybodys(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            mine = await held(served)
            bob, admin = served.client("bob"), served.client("admin")
            assert (await bob.get(LIST)).json()["conversations"] == []
            assert (await bob.get(LIST, user="ann")).status_code == 403
            assert [one["id"] for one in (await served.ann.get(LIST)).json()["conversations"]] == [mine]
            assert [one["id"] for one in (await admin.get(LIST, user="ann")).json()["conversations"]] == [mine]

    run(check)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("127.0.0.1:8700", "timeloom_token_8700"),
        ("[::1]:8700", "timeloom_token_8700"),
        ("[::1]", "timeloom_token"),
        ("example.org", "timeloom_token"),
        ("example.org:x;y", "timeloom_token"),
    ],
)
def test_the_cookie_has_the_port_that_was_asked(host: str, name: str) -> None:
    headers = [(b"host", host.encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "scheme": "http", "headers": headers}
    assert cookie_name(HTTPConnection(scope)) == name


def test_me_tells_how_much_can_be_attached(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path)
        stage.uploads = UploadLimits(max_bytes=1_000, max_files=2)
        async with stage.serve() as served:
            me = (await served.ann.get("/me")).json()
            assert (me["max_uploads"], me["max_upload_bytes"]) == (2, 1_000)
            assert {"png", "docx", "json"} <= set(me["refused_suffixes"])
            assert not {"csv", "md", "py", "txt"} & set(me["refused_suffixes"])

    run(check)


@pytest.mark.parametrize(("name", "demo"), [("script", False), ("local", True)])
def test_me_names_the_model_and_says_whether_it_is_a_demo(tmp_path: Path, name: str, demo: bool) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path)
        stage.model = ScriptedModel([], name=name)
        async with stage.serve() as served:
            me = (await served.ann.get("/me")).json()
            assert (me["model"], me["demo"], len(me["examples"])) == (name, demo, 3 if demo else 0)

    run(check)
