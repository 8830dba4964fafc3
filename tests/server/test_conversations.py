"""Stored conversations over HTTP: listed, read, copied, erased and deleted."""

from pathlib import Path

from tests.harness.replies import answers
from tests.server.server_harness import LIST, RunningServer, ServerHarness, calls, repeated_reply, run
from timeloom.app import AgentSettings
from timeloom.core.ids import ConversationId
from timeloom.data_folder import EXPORTS_FOLDER, HISTORY_FILE
from timeloom.stores.sqlite import SqliteStore

ANSWERS = repeated_reply(answers("The answer is four."))


async def held(served: RunningServer, message: str) -> str:
    conversation = str((await served.ann.send_message(message))["conversation_id"])
    await served.ann.wait_for_state(conversation, "idle")
    return conversation


def test_conversations_are_listed_page_by_page_and_found_by_words(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWERS).serve() as served:
            names = [await held(served, f"about {word}") for word in ("apples", "pears", "plums")]
            listed: list[str] = []
            cursor = ""
            while True:
                page = (await served.ann.get(LIST, limit=2, cursor=cursor)).json()
                listed += [one["id"] for one in page["conversations"]]
                cursor = page.get("cursor", "")
                if not cursor:
                    break
            assert listed == names[::-1]
            found = (await served.ann.get(LIST, words="pears")).json()["conversations"]
            assert [one["id"] for one in found] == [names[1]]

    run(check)


def test_a_conversation_says_whose_it_is_and_what_it_does(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWERS).serve() as served:
            conversation = await held(served, "about apples")
            info = (await served.ann.get(f"{LIST}/{conversation}")).json()
            assert (info["user"], info["title"]) == ("ann", "about apples")
            status = (await served.ann.get(f"{LIST}/{conversation}/status")).json()
            assert (status["state"], status["tail"]) == ("idle", info["tail"])
            sources = (await served.ann.get(f"{LIST}/{conversation}/sources")).json()
            assert (sources["type"], sources["rows"]) == ("conv:sources_pool", [])

    run(check)


def test_a_timeline_is_also_given_as_an_export(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, calls("t.look"), answers("Done.")).serve() as served:
            conversation = await held(served, "go")
            whole = (await served.ann.get(f"{LIST}/{conversation}/timeline", form="export")).json()
            blocks = await served.ann.blocks(conversation)
            assert (whole["type"], whole["tail"]) == ("conv.timeline.v1", len(blocks))
            assert [one["type"] for one in whole["blocks"]] == [one["type"] for one in blocks]
            beyond = (await served.ann.get(f"{LIST}/{conversation}/timeline", after=999)).json()
            assert (beyond["blocks"], beyond["next"], beyond["tail"]) == ([], None, len(blocks))

    run(check)


def test_a_fork_goes_on_by_itself(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWERS).serve() as served:
            conversation = await held(served, "one")
            await served.ann.send_message("two", conversation)
            await served.ann.wait_for_state(conversation, "idle")
            for body, turns in (({}, 2), ({"turn": "1"}, 1), ({"seq": 3}, 1)):
                made = await served.ann.post(f"{LIST}/{conversation}/fork", body)
                assert (made.status_code, made.json()["turns"]) == (201, turns)
            copy = made.json()["conversation"]
            assert (await served.ann.send_message("on", copy))["status"] == "started"
            await served.ann.wait_for_state(copy, "idle")
            for body, status in (({"turn": "1", "seq": 3}, 400), ({"seq": 999}, 404), ({"turn": "9"}, 404)):
                assert (await served.ann.post(f"{LIST}/{conversation}/fork", body)).status_code == status

    run(check)


def test_what_is_erased_is_gone_and_the_conversation_goes_on(tmp_path: Path) -> None:
    async def check() -> None:
        async with (
            await SqliteStore.open(tmp_path / "data") as store,
            ServerHarness(tmp_path, ANSWERS, store=store).serve() as served,
        ):
            conversation = await held(served, "my secret")
            url = f"{LIST}/{conversation}/erase"
            report = await served.ann.post(url, {"all": True})
            assert report.status_code == 200
            assert report.json()["entries"]
            assert "secret" not in str(await served.ann.blocks(conversation))
            assert (await served.ann.post(url, {})).status_code == 400
            assert (await served.ann.post(url, {"paths": ["ar:turn_1.user.prompt"]})).status_code == 404
            assert (await served.ann.send_message("again", conversation))["status"] == "started"
            await served.ann.wait_for_state(conversation, "idle")

    run(check)


def test_nothing_is_erased_while_a_turn_runs_and_a_running_one_is_deleted_whole(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.wait"), answers("never"))
        async with stage.serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await stage.waiting.wait()
            refused = await served.ann.post(f"{LIST}/{conversation}/erase", {"all": True})
            assert (refused.status_code, refused.json()["code"]) == (409, "turn_open")
            folder = AgentSettings(data_dir=tmp_path).workspaces / conversation
            assert folder.exists()
            gone = await served.http.delete(f"{LIST}/{conversation}", headers=served.ann.headers)
            assert gone.status_code == 204
            assert (await served.ann.get(f"{LIST}/{conversation}/status")).status_code == 404
            assert not any(folder.glob("**/*"))

    run(check)


def test_an_erase_also_forgets_what_was_typed_and_exported(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWERS).serve() as served:
            kept, gone, deleted = [await held(served, text) for text in ("keep this", "my secret", "my other secret")]
            typed = ("keep this", "my secret", "my other secret")
            (tmp_path / HISTORY_FILE).write_text("".join(f"\n# now\n+{text}\n" for text in typed))
            for name in (kept, gone, deleted):
                (tmp_path / EXPORTS_FOLDER / name).mkdir(parents=True)
            assert (await served.ann.post(f"{LIST}/{gone}/erase", {"all": True})).status_code == 200
            await served.http.delete(f"{LIST}/{deleted}", headers=served.ann.headers)
            left = (tmp_path / HISTORY_FILE).read_text()
            assert "keep this" in left
            assert "secret" not in left
            assert [path.name for path in (tmp_path / EXPORTS_FOLDER).iterdir()] == [kept]

    run(check)


def test_a_person_names_a_conversation_while_a_turn_runs_and_after(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.wait"), answers("never"))
        async with stage.serve() as served:
            running = str((await served.ann.send_message("go"))["conversation_id"])
            await stage.waiting.wait()
            named = await served.ann.post(f"{LIST}/{running}/title", {"title": "  My \n  fruits "})
            assert (named.status_code, named.json()["title"]) == (200, "My fruits")
            assert (await served.ann.get(f"{LIST}/{running}")).json()["title"] == "My fruits"
            await served.ann.send(running, "cancel")
            await served.ann.wait_for_state(running, "idle")
            await served.ann.post(f"{LIST}/{running}/title", {"title": "Again"})
            info = (await served.ann.get(f"{LIST}/{running}")).json()
            assert info["title"] == "Again"
            last = (await served.ann.blocks(running))[-1]
            assert (last["type"], last["text"], last["author"]) == ("conv.title", "Again", "ann")
            for title in ("", "   ", "x" * 301, "a\0b", "a\nb\u202e\0", "\ufeffa", "\x1b[2J", "\u2800"):
                refused = await served.ann.post(f"{LIST}/{running}/title", {"title": title})
                assert (refused.status_code, refused.json()["code"]) == (400, "request_malformed")

    run(check)


def test_what_another_program_holds_is_not_named_here(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, ANSWERS)
        async with stage.serve() as served:
            conversation = await held(served, "about apples")
            name = ConversationId(conversation)
            async with served.services.hub.release_temporarily(name, stops_turn=True):
                lease = await stage.store.acquire(name, "somebody else")
            refused = await served.ann.post(f"{LIST}/{conversation}/title", {"title": "Mine"})
            assert (refused.status_code, refused.json()["code"]) == (409, "conversation_held")
            await stage.store.release(lease)
            assert (await served.ann.post(f"{LIST}/{conversation}/title", {"title": "Mine"})).status_code == 200

    run(check)


def test_words_are_found_in_titles_and_messages(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWERS).serve() as served:
            names = [await held(served, f"about {word}, please") for word in ("apples", "pears", "pears and plums")]
            found = (await served.ann.get(f"{LIST}/search", words="pears", limit=1)).json()
            assert [one["conversation"]["id"] for one in found["found"]] == [names[2]]
            hits = found["found"][0]["hits"]
            assert [hit["type"] for hit in hits] == ["conv.title", "user.prompt"]
            assert (hits[1]["snippet"], hits[1]["path"].endswith(".user.prompt")) == (
                "about pears and plums, please",
                True,
            )
            rest = (await served.ann.get(f"{LIST}/search", words="pears", cursor=found["cursor"])).json()
            assert [one["conversation"]["id"] for one in rest["found"]] == [names[1]]
            assert (await served.client("bob").get(f"{LIST}/search", words="pears")).json()["found"] == []
            assert (await served.ann.get(f"{LIST}/search", words="answer", hits=1)).json()["found"][0]["hits"][0][
                "type"
            ] == ("assistant.completion")
            assert (await served.ann.get(f"{LIST}/search")).status_code == 400

    run(check)


def test_a_conversation_is_fetched_turn_by_turn(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWERS).serve() as served:
            conversation = await held(served, "one")
            for text in ("two", "three"):
                await served.ann.send_message(text, conversation)
                await served.ann.wait_for_state(conversation, "idle")
            url, said, cursor = f"{LIST}/fetch", list[str](), ""
            while True:
                page = (
                    await served.ann.post(url, {"conversation_id": conversation, "limit": 2, "cursor": cursor})
                ).json()
                said += [turn["messages"][0]["text"] for turn in page["turns"]]
                cursor = page["cursor"]
                if not cursor:
                    break
            assert said == ["one", "two", "three"]
            last = page["turns"][-1]
            assert (last["n"], last["ended"], last["messages"][-1]["text"]) == (3, "completed", "The answer is four.")
            some = (await served.ann.post(url, {"conversation_id": conversation, "turn_ids": ["2"]})).json()
            assert [turn["n"] for turn in some["turns"]] == [2]
            for body, status in (
                ({"conversation_id": conversation, "turn_ids": ["9"]}, 404),
                ({"conversation_id": "conv_none"}, 404),
                ({"conversation_id": conversation, "cursor": "x"}, 400),
                ({}, 400),
            ):
                assert (await served.ann.post(url, body)).status_code == status
            assert (await served.client("bob").post(url, {"conversation_id": conversation})).status_code == 404
            admins = await served.client("admin").post(url, {"conversation_id": conversation})
            assert admins.status_code == 200

    run(check)


def test_what_a_model_was_sent_is_shown_as_it_was(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, calls("t.look"), answers("Done."), ANSWERS).serve() as served:
            conversation = await held(served, "about apples")
            await served.ann.send_message("and pears", conversation)
            await served.ann.wait_for_state(conversation, "idle")
            url = f"{LIST}/{conversation}/prompt"
            newest = (await served.ann.get(url)).json()
            assert (newest["call"]["verdict"], newest["call"]["round"]) == ("same", 1)
            assert "and pears" in "".join(segment["text"] for segment in newest["segments"])
            second = (await served.ann.get(url, turn="1", round=2)).json()
            assert second["call"]["round"] == 2
            assert second["call"]["ended"] == "end"
            assert second["call"]["usage"]["output_tokens"] > 0
            assert second["call"]["cache"]["expected"]["hit"]["blocks"] == 1
            assert "x x x" in "".join(segment["text"] for segment in second["segments"])
            assert "ANNOUNCE" in second["tail"]
            for query in ({"round": 9}, {"turn": "9"}, {"round": 1, "attempt": 7}):
                assert (await served.ann.get(url, **query)).status_code == 404
            assert (await served.ann.get(url, round="x")).status_code == 400

    run(check)


def test_an_admin_lists_the_conversations_of_all(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWERS).serve() as served:
            conversation, admin = await held(served, "about apples"), served.client("admin")
            for user, expected in (("", []), ("ann", [conversation]), ("*", [conversation]), ("bob", [])):
                page = (await admin.get(LIST, user=user)).json()
                assert [one["id"] for one in page["conversations"]] == expected
            assert (await served.client("bob").get(LIST, user="*")).status_code == 403

    run(check)
