"""Checks which feedback counts, and that conversations are found by it."""

from msgspec.structs import replace

from timeloom.core.blocks import ConversationStarted, Erased, Feedback, ForkPoint
from timeloom.core.blocks.redact import redact_block
from timeloom.core.blocks.user import Reaction
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.core.view.feedback import FeedbackCounts
from timeloom.ports.feedback import FeedbackPage, FeedbackQuery
from timeloom.testing.store_contract.fixtures import (
    CONVERSATION,
    Open,
    draft,
    expect_error,
    header,
    scoped_store,
    thought,
)

_OTHER = ConversationId("conv_b")


def _said(reaction: Reaction | None, at: int = 0, turn: str = "turn_1", text: str = "") -> Draft:
    block = Feedback(origin="user", reaction=reaction, text=text)
    return Draft(TurnId(turn), draft(block, at).ts, block)


def _machine(at: int = 0, turn: str = "turn_1") -> Draft:
    block = Feedback(origin="machine", reaction="ok", confidence=0.5, author="judge")
    return Draft(TurnId(turn), draft(block, at).ts, block)


def _silent() -> Draft:
    return Draft(TurnId("turn_1"), draft(Feedback(origin="machine")).ts, Feedback(origin="machine", text="  "))


def _names(page: FeedbackPage) -> list[str]:
    return [one.info.id for one in page.conversations]


async def feedback_that_was_erased_is_not_counted(open_store: Open) -> None:
    """Erased feedback of a person counts as withdrawn, that of a machine as never given."""
    query = FeedbackQuery(tenant="tenant")
    async with scoped_store(open_store) as store:
        drafts = [header(), _said("ok"), _said("not_ok"), _said("neutral", turn="turn_2"), _machine(), _machine()]
        before = await store.append(CONVERSATION, 0, drafts)
        gone = [replace(entry, block=redact_block(entry.block)) for entry in (before[2], before[4])]
        await store.erase(CONVERSATION, 6, gone, draft(Erased(by="somebody")))
        assert (await store.list_feedback(query)).total == FeedbackCounts(neutral=1, machine=1)
        assert (await store.verify()).findings == ()


async def of_a_turn_the_newest_word_of_a_person_is_counted(open_store: Open) -> None:
    """New feedback of a person replaces the earlier one, null withdraws it, and machine feedback adds up."""
    query = FeedbackQuery(tenant="tenant")
    async with scoped_store(open_store) as store:
        assert await store.list_feedback(query) == FeedbackPage(conversations=(), total=FeedbackCounts())
        await store.append(CONVERSATION, 0, [header(), thought("x"), _said("ok"), _said("neutral", turn="turn_2")])
        await store.append(CONVERSATION, 4, [_machine(), _said("not_ok"), _machine(), _machine(turn="turn_3")])
        page = await store.list_feedback(query)
        assert page.total == FeedbackCounts(not_ok=1, neutral=1, machine=3)
        (only,) = page.conversations
        assert (only.info, only.counts) == (await store.info(CONVERSATION), page.total)
        await store.append(CONVERSATION, 8, [_said(None), _said(None, turn="turn_2", text="a remark")])
        assert (await store.list_feedback(query)).total == FeedbackCounts(machine=3)
        await store.append(_OTHER, 0, [header(), _said("ok"), _said(None), _silent()])
        assert _names(await store.list_feedback(query)) == [CONVERSATION]


async def feedback_is_found_by_whose_it_is_and_when_it_was_given(open_store: Open) -> None:
    """The time is that of the entry; `since` is inclusive and `until` exclusive."""
    async with scoped_store(open_store) as store:
        for at, owner in enumerate((("t1", "p1", "u1"), ("t1", "p1", "u2"), ("t1", "p2", "u1"), ("t2", "p1", "u1"))):
            name = ConversationId(f"conv_{at}")
            await store.append(name, 0, [header(*owner), _said("ok", at * 10), _said("not_ok", at * 10 + 1, "turn_2")])
        for (tenant, project, user), expected in (
            (("t1", "", ""), "210"),
            (("t1", "p1", ""), "10"),
            (("t1", "", "u1"), "20"),
            (("t2", "p2", ""), ""),
            (("", "", ""), ""),
        ):
            page = await store.list_feedback(FeedbackQuery(tenant=tenant, project=project, user=user))
            assert "".join(name.removeprefix("conv_") for name in _names(page)) == expected
            assert page.total.ok == len(expected)
        for since, until, expected in (
            ("2026-02-09T02:00:10Z", "", FeedbackCounts(ok=2, not_ok=2)),
            ("2026-02-09T02:00:10.000001Z", "", FeedbackCounts(ok=1, not_ok=2)),
            ("", "2026-02-09T02:00:10Z", FeedbackCounts(ok=1, not_ok=1)),
            ("", "2026-02-09T02:00:10.5Z", FeedbackCounts(ok=2, not_ok=1)),
            ("2026-02-09T02:00:11Z", "2026-02-09T02:00:20Z", FeedbackCounts(not_ok=1)),
            ("2027-01-01T00:00:00Z", "", FeedbackCounts()),
        ):
            page = await store.list_feedback(FeedbackQuery(tenant="t1", since=since, until=until))
            assert page.total == expected, (since, until)
        await expect_error("entry_malformed", store.list_feedback(FeedbackQuery(tenant="t1", since="yesterday")))


async def paging_shows_each_judged_conversation_once(open_store: Open) -> None:
    """Conversations with the newest feedback come first; a cursor is a position and comes from a page."""
    async with scoped_store(open_store) as store:
        for n in range(7):
            await store.append(ConversationId(f"conv_{n}"), 0, [header(at=59 - n), _said("ok", n // 2)])
        seen: list[str] = []
        query = FeedbackQuery(tenant="tenant", limit=3)
        for extra in range(10, 20):
            page = await store.list_feedback(query)
            seen += _names(page)
            await store.append(ConversationId(f"conv_{extra}"), 0, [header(), _said("ok", extra)])
            if not page.cursor:
                break
            query = FeedbackQuery(tenant="tenant", limit=3, cursor=page.cursor)
        assert seen == [f"conv_{n}" for n in reversed(range(7))]
        await expect_error("cursor_malformed", store.list_feedback(FeedbackQuery(tenant="tenant", cursor="x")))


async def feedback_that_a_fork_copied_or_that_was_deleted_is_not_counted(open_store: Open) -> None:
    """Feedback counts only in the conversation in which it was given, until that is deleted."""
    query = FeedbackQuery(tenant="tenant")
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header(), _said("ok")])
        forked = ConversationStarted(
            tenant="tenant", project="project", user="user", parent=CONVERSATION, forked_from=ForkPoint(CONVERSATION, 2)
        )
        await store.append(_OTHER, 0, [Draft(NO_TURN, header().ts, forked), _said("ok"), _said("neutral", 0, "turn_2")])
        assert (await store.list_feedback(query)).total == FeedbackCounts(ok=1, neutral=1)
        await store.delete(CONVERSATION)
        assert (await store.list_feedback(query)).total == FeedbackCounts(neutral=1)
        assert _names(await store.list_feedback(query)) == [_OTHER]
