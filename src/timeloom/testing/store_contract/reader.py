"""Checks of loading, listing and searching conversations."""

import msgspec

from timeloom.core.blocks import (
    AnyBlock,
    CompactionEnded,
    CompactionRequested,
    Completion,
    ConversationStarted,
    Followup,
    Thinking,
    Titled,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.blocks.extract_payloads import INLINE_BYTES
from timeloom.core.ids import ConversationId, MessageId, TurnId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.ports.reader import ConversationQuery, OpenTurnQuery
from timeloom.testing.store_contract.fixtures import (
    CONVERSATION,
    Open,
    draft,
    expect_error,
    header,
    scoped_store,
    thought,
)


async def a_part_of_a_conversation_loads(open_store: Open) -> None:
    """`load` honours `after` and `limit`, also outside the range of the entries."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header(), *(thought(str(n)) for n in range(9))])
        for after, limit, expected in (
            (0, None, range(1, 11)),
            (4, None, range(5, 11)),
            (4, 2, range(5, 7)),
            (9, 5, range(10, 11)),
            (10, None, ()),
            (99, 3, ()),
            (-5, 1, range(1, 2)),
            (3, 0, ()),
        ):
            assert [entry.seq for entry in await store.load(CONVERSATION, after, limit)] == list(expected)


async def what_is_unknown_is_said_to_be(open_store: Open) -> None:
    """Unknown ids raise `conversation_unknown`, hostile ones too."""
    async with scoped_store(open_store) as store:
        for name in ("conv_a", "", "x" * 500, "\ud800", "a'; DROP TABLE entries; --", "a\x00b"):
            unknown = ConversationId(name)
            await expect_error("conversation_unknown", store.load(unknown))
            await expect_error("conversation_unknown", store.info(unknown))
            await expect_error("conversation_unknown", store.delete(unknown))
            await expect_error("conversation_unknown", anext(store.follow(unknown)))
            await store.save_snapshot(unknown, 1, "v", b"x")
            assert await store.load_snapshot(unknown, "v") is None


async def the_list_says_what_the_entries_say(open_store: Open) -> None:
    """`info` matches the entries."""
    async with scoped_store(open_store) as store:
        started = ConversationStarted(tenant="t", project="p", user="u", bundle="b", parent=ConversationId("conv_0"))
        await store.append(CONVERSATION, 0, [draft(started, 1), draft(Titled(text="First"), 2)])
        await store.append(CONVERSATION, 2, [draft(Titled(text="Second"), 3), thought("x", 4)])
        info = await store.info(CONVERSATION)
        assert (info.id, info.tenant, info.project, info.user) == (CONVERSATION, "t", "p", "u")
        assert (info.bundle, info.parent, info.title, info.tail) == ("b", "conv_0", "Second", 4)
        assert (info.started_ts, info.last_ts) == (draft(started, 1).ts, draft(started, 4).ts)
        assert (await store.conversations(ConversationQuery(tenant="t"))).conversations == (info,)


async def conversations_are_listed_by_tenant_project_and_user_newest_first(open_store: Open) -> None:
    """Conversations are ordered by the time of their last entry."""
    async with scoped_store(open_store) as store:
        for at, name in enumerate(("t1/p1/u1", "t1/p1/u2", "t1/p2/u1", "t2/p1/u1", "t1/p1/u1")):
            owner = name.split("/")
            await store.append(ConversationId(f"conv_{at}"), 0, [header(*owner, at=at)])
        await store.append(ConversationId("conv_0"), 1, [thought("the newest now", 50)])
        for owner, expected in (
            (("t1", "", ""), "0421"),
            (("t1", "p1", ""), "041"),
            (("t1", "", "u1"), "042"),
            (("t1", "p1", "u2"), "1"),
            (("t2", "p2", ""), ""),
            (("", "", ""), ""),
            (("\ud800", "", ""), ""),
        ):
            tenant, project, user = owner
            page = await store.conversations(ConversationQuery(tenant=tenant, project=project, user=user))
            assert "".join(info.id.removeprefix("conv_") for info in page.conversations) == expected, owner


async def those_who_look_after_the_place_see_every_conversation(open_store: Open) -> None:
    """`conversation_ids` pages through all tenants in the order of the ids."""
    async with scoped_store(open_store) as store:
        for name in ("conv_b", "conv_C", "conv_a", "conv_d"):
            await store.append(ConversationId(name), 0, [header(tenant=name)])
        assert await store.conversation_ids() == ["conv_C", "conv_a", "conv_b", "conv_d"]
        assert await store.conversation_ids(after="conv_a", limit=1) == ["conv_b"]
        assert await store.conversation_ids(after="conv_d") == []


async def idle_conversations_are_found_by_the_time_of_their_last_entry(open_store: Open) -> None:
    """`idle_conversations` pages through all tenants in the order of the ids."""
    async with scoped_store(open_store) as store:
        for at, name in enumerate(("conv_b", "conv_C", "conv_a")):
            await store.append(ConversationId(name), 0, [header(tenant=name, at=at)])
        before = draft(Titled(text="on"), 2).ts
        assert [info.id for info in await store.idle_conversations(before)] == ["conv_C", "conv_b"]
        assert await store.idle_conversations(before, after="conv_C") == [await store.info(ConversationId("conv_b"))]
        assert [info.id for info in await store.idle_conversations(before, limit=1)] == ["conv_C"]
        await store.append(ConversationId("conv_b"), 1, [draft(Titled(text="on"), 60)])
        assert [info.id for info in await store.idle_conversations(before)] == ["conv_C"]


async def a_turn_is_open_from_its_start_to_its_own_end(open_store: Open) -> None:
    """Only the newest turn can be open; entries of other turns do not end it.

    A requested compaction is open until its outcome, in a turn and outside.
    """
    start, end, on = TurnStarted(n=1), TurnEnded(reason="completed"), Thinking(round=1, text="on")
    first, second = TurnId("turn_1"), TurnId("turn_2")
    asked, again = MessageId("asked"), MessageId("again")
    ask, done = CompactionRequested(message_id=asked), CompactionEnded(message_id=asked, outcome="skipped")
    steps: tuple[tuple[bool, tuple[tuple[TurnId, AnyBlock], ...]], ...] = (
        (False, ((first, on),)),
        (True, ((first, start),)),
        (True, ((first, on), (NO_TURN, Titled(text="on")))),
        (True, ((second, end), (NO_TURN, end))),
        (False, ((first, on), (first, end))),
        (False, ((first, on),)),
        (False, ((first, start), (first, end))),
        (True, ((first, end), (first, start))),
        (True, ((second, start), (first, end))),
        (False, ((second, end),)),
        (True, ((NO_TURN, ask),)),
        (True, ((first, start), (first, end))),
        (True, ((NO_TURN, msgspec.structs.replace(ask, message_id=again)), (NO_TURN, done))),
        (False, ((NO_TURN, msgspec.structs.replace(done, message_id=again)),)),
        (True, ((second, start), (second, ask), (second, done))),
        (False, ((second, end),)),
    )
    async with scoped_store(open_store) as store:
        (entry,) = await store.append(CONVERSATION, 0, [header()])
        for is_open, blocks in steps:
            drafts = [Draft(turn, entry.ts, block) for turn, block in blocks]
            *_, entry = await store.append(CONVERSATION, entry.seq, drafts)
            assert await store.open_turns() == [CONVERSATION] * is_open, blocks
            assert (await store.verify()).findings == ()


async def conversations_with_an_open_turn_are_known(open_store: Open) -> None:
    """`open_turns` pages through all tenants in the order of the ids."""
    async with scoped_store(open_store) as store:
        for name in ("conv_c", "conv_a", "conv_d", "conv_b"):
            await store.append(ConversationId(name), 0, [header(tenant=name), draft(TurnStarted(n=1))])
        await store.append(ConversationId("conv_d"), 2, [draft(TurnEnded(reason="stopped"))])
        assert await store.open_turns() == ["conv_a", "conv_b", "conv_c"]
        assert await store.open_turns(after="conv_a", limit=1) == ["conv_b"]
        assert await store.open_turns(after="conv_c") == []
        await store.delete(ConversationId("conv_b"))
        assert await store.open_turns() == ["conv_a", "conv_c"]


async def open_turns_of_a_project_are_listed(open_store: Open) -> None:
    """`conversations_with_open_turn` pages through one project; `having_open_turn` selects from given ids."""
    async with scoped_store(open_store) as store:
        opened = (("conv_c", "p", "ann"), ("conv_a", "p", "bob"), ("conv_x", "other", "ann"), ("conv_b", "p", "ann"))
        for name, project, user in opened:
            await store.append(ConversationId(name), 0, [header(project=project, user=user), draft(TurnStarted(n=1))])
        await store.append(ConversationId("conv_d"), 0, [header(project="p")])

        async def listed(**query: str | int) -> list[str]:
            chosen = msgspec.convert({"tenant": "tenant", "project": "p", **query}, OpenTurnQuery)
            return [info.id for info in await store.conversations_with_open_turn(chosen)]

        assert await listed() == ["conv_a", "conv_b", "conv_c"]
        assert await listed(after="conv_a", limit=1) == ["conv_b"]
        assert await listed(user="ann") == ["conv_b", "conv_c"]
        assert await listed(tenant="another") == []
        assert await listed(limit=0) == await listed(user="\ud800") == []
        (info,) = await store.conversations_with_open_turn(OpenTurnQuery(tenant="tenant", project="other"))
        assert info == await store.info(ConversationId("conv_x"))
        asked = [ConversationId(name) for name in ("conv_x", "conv_d", "conv_a", "nowhere", "\ud800")]
        assert await store.having_open_turn(asked) == {"conv_x", "conv_a"}


async def paging_shows_each_conversation_once_while_others_are_added(open_store: Open) -> None:
    """A cursor is a position in the list and not an offset."""
    async with scoped_store(open_store) as store:
        # Two conversations per time, so that a page can end between equal times.
        for n in range(10):
            await store.append(ConversationId(f"conv_{n}"), 0, [header(at=n // 2)])
        seen: list[str] = []
        query = ConversationQuery(tenant="tenant", limit=3)
        for extra in range(10, 20):
            page = await store.conversations(query)
            seen += [info.id for info in page.conversations]
            await store.append(ConversationId(f"conv_{extra}"), 0, [header(at=extra)])
            if not page.cursor:
                break
            query = ConversationQuery(tenant="tenant", limit=3, cursor=page.cursor)
        assert seen == [f"conv_{n}" for n in reversed(range(10))]


async def a_list_refuses_a_cursor_that_it_did_not_give(open_store: Open) -> None:
    """Malformed cursors raise an error; limits are reduced to valid values."""
    async with scoped_store(open_store) as store:
        for cursor in ("x", "00", "5b5d", "7b7d", "\ud800", "é", "22", "5b5b22", "ff" * 1000):
            await expect_error("cursor_malformed", store.conversations(ConversationQuery(tenant="t", cursor=cursor)))
        for limit in (-1, 0, 10**9):
            assert (await store.conversations(ConversationQuery(tenant="t", limit=limit))).conversations == ()


async def messages_are_found_by_any_of_their_words(open_store: Open) -> None:
    """The newest messages come first; the current title is searched, earlier titles are not."""
    async with scoped_store(open_store) as store:
        said = (Titled(text="Old pears"), UserPrompt(text="About PEARS"), Completion(text="Plums"), Titled(text="Pear"))
        await store.append(CONVERSATION, 0, [header(), *map(draft, said), thought("pears")])
        await store.append(ConversationId("conv_b"), 0, [header(), draft(UserPrompt(text="pears"))])
        for words, limit, expected in (
            ("pear", 10, [5, 3]),
            ("plum pears", 10, [4, 3]),
            ("pear", 1, [5]),
            ("old", 10, []),
            ("", 10, []),
            ("!!! ---", 10, []),
            ('" OR said:*', 10, []),
        ):
            assert await store.search_messages(CONVERSATION, words, limit) == expected, words
        await expect_error("conversation_unknown", store.search_messages(ConversationId("conv_c"), "pear"))


async def conversations_are_found_by_the_words_that_were_said(open_store: Open) -> None:
    """All words must match as prefixes without case and accents; query syntax has no effect."""
    async with scoped_store(open_store) as store:
        said = [
            draft(Titled(text="Old title")),
            draft(UserPrompt(text="Où est l'Été à Łódź? snake_case and foo-bar")),
            draft(Completion(text="In ZÜRICH, " + "far " * INLINE_BYTES + "away")),
            draft(Followup(message_id=MessageId("m1"), text="SELECT 42 FROM résumé")),
            thought("unspoken"),
        ]
        await store.append(CONVERSATION, 0, [header(), *said])
        await store.append(CONVERSATION, 6, [draft(Titled(text="New title"))])
        await store.append(ConversationId("conv_b"), 0, [header(tenant="other"), *said])
        for words, expected in (
            ("été", True),
            ("ETE", True),
            ("zur", True),
            ("  select   42  zurich resum ", True),
            ("foo-bar", True),
            ("new", True),
            ('"été', True),
            ("far*", True),
            ("old", False),
            ("unspoken", False),
            ("ete missing", False),
            ("urich", False),
            ("NEAR(ete zurich", False),
            ("text:ete", False),
            ("'; DROP TABLE said; --", False),
            ("!!! ---", False),
            ("\x00", False),
            ("\ud800", False),
            ("a" * 100_000, False),
        ):
            page = await store.conversations(ConversationQuery(tenant="tenant", words=words))
            assert [info.id for info in page.conversations] == [CONVERSATION] * expected, words[:40]
