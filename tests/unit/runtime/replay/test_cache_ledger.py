"""The cache ledger: a conversation with a provider that keeps prefixes, told call by call and explained."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.harness.cache import CachingModel
from tests.harness.prompt_prefix import PREFIX_CHECK
from tests.harness.replay import CONVERSATION, LARGE, TURN, make_log, run_replay, store_entries, to_drafts
from tests.harness.replies import answers
from tests.harness.turn import HEADER, calls, run
from timeloom.app import AgentSettings, build_turn_runner, open_session
from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    Cut,
    Hidden,
    ModelAnswered,
    ModelCalled,
    Notice,
    Pruned,
    RangeSummary,
    TurnStarted,
    Usage,
    UserPrompt,
)
from timeloom.core.blocks.caching import CacheForecast, CacheSettings, Lifetime
from timeloom.core.blocks.extract_payloads import find_blob_refs, restore_payloads
from timeloom.core.payload import ref_of
from timeloom.core.policy.cache.misses import MissReason, PromptChange
from timeloom.core.policy.next_step import AskModel
from timeloom.core.timeline import Entry
from timeloom.runtime.prompt.builder import PromptBuilder, PromptSettings
from timeloom.runtime.prompt.system_text import SystemSettings, SystemTexts
from timeloom.runtime.replay.cache_ledger import CacheRow
from timeloom.runtime.replay.replay import ReplayedCall, explain_call
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing import ScriptedModel

START_US = 1_770_603_272_000_000


class Clock:
    """A clock that the test sets, the same for the runtime and for the provider."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def epoch_us(self) -> int:
        """Microseconds since 1970."""
        return START_US + int(self.now_s * 1_000_000)


class Talk:
    """A conversation with a provider that keeps prefixes; between messages the clock is moved on."""

    def __init__(self, tmp_path: Path, *replies: str, cache: CacheSettings | None = None) -> None:
        self.store = MemoryStore()
        self.clock = Clock()
        self.model = CachingModel(ScriptedModel.from_text(json.dumps([{"reply": reply} for reply in replies])))
        self._setting = AgentSettings(data_dir=tmp_path, cache=cache or CacheSettings())
        self.turns: TurnRunner | None = None

    async def say(self, text: str, after_s: float = 5, attached: tuple[Attachment, ...] = ()) -> None:
        """Send a message that many seconds after the previous one."""
        self.clock.now_s += after_s
        self.model.now_s = self.clock.now_s
        if self.turns is None:
            session = await open_session(self.store, None, HEADER, clock=self.clock)
            self.turns = build_turn_runner(session, self.model, self._setting, lambda _: None)
        await self.turns.run(text, attached)

    async def rows(self) -> list[tuple[ReplayedCall, CacheRow]]:
        """The ledger; nothing else may be found."""
        assert self.turns
        found, findings = await run_replay(self.store, self.turns.session.conversation)
        assert findings == []
        assert {call.verdict for call in found} == {"same"}
        for call in found:
            assert (await explain_call(self.store, call.conversation, call.seq)).call == call
        return [(call, call.cache) for call in found if call.cache]


def numbers(call: ReplayedCall, row: CacheRow) -> tuple[tuple[int, ...], tuple[int, ...]]:
    usage, expected = call.usage, row.expected
    return (
        (expected.read_tokens, expected.written_tokens, expected.written_1h_tokens, expected.uncached_tokens),
        (usage.cache_read_tokens, usage.cache_write_tokens, usage.cache_write_1h_tokens, usage.input_tokens),
    )


def check_close(call: ReplayedCall, row: CacheRow, tolerance: float = 0.01) -> None:
    """Assert that the expected tokens equal the reported ones, within that share of the prompt."""
    expected, reported = numbers(call, row)
    prompt = sum(reported) - reported[2]
    assert all(abs(one - two) <= tolerance * prompt for one, two in zip(expected, reported, strict=True))


def test_what_is_expected_is_what_a_provider_reports(tmp_path: Path) -> None:
    async def check() -> None:
        writes = [calls("react.write", path=f"files/{n}.md", content="word " * 900) for n in range(5)]
        talk = Talk(tmp_path, *writes, answers("done"), answers("and more"))
        await talk.say("write")
        await talk.say("and?", 60)
        rows = await talk.rows()
        assert len(rows) == 7
        for call, row in rows[2:]:
            check_close(call, row)
            assert row.change is None
            assert row.recorded
            assert row.reported
        assert sum(call.usage.cache_read_tokens for call, _ in rows) > 0.7 * sum(sum(numbers(*row)[1]) for row in rows)

    run(check)


def test_a_pause_that_outlives_the_cache_is_expected_and_explained(tmp_path: Path) -> None:
    async def check() -> None:
        talk = Talk(tmp_path, answers("one"), answers("two"), answers("three"), cache=CacheSettings(lifetime="5m"))
        await talk.say("a")
        await talk.say("b", 299)
        await talk.say("c", 301)
        _, warm, cold = await talk.rows()
        assert warm[1].change is None or warm[1].change.reason == "estimate"
        assert (cold[0].usage.cache_read_tokens, cold[1].expected.read_tokens) == (0, 0)
        assert cold[1].change == PromptChange("expired")

    run(check)


def test_an_hour_is_chosen_after_pauses_that_five_minutes_do_not_last(tmp_path: Path) -> None:
    async def check() -> None:
        talk = Talk(tmp_path, *[answers(f"{n}") for n in range(12)])
        for _ in range(12):
            await talk.say("more?", 1_200)
        rows = await talk.rows()
        assert [row.expected.points[-1].lifetime for _, row in rows][-3:] == ["1h"] * 3
        assert rows[-1][0].usage.cache_read_tokens > 0
        (request,) = talk.model.requests[-1:]
        assert (request.system_cache_lifetime, request.segments[-2].cache_lifetime) == ("1h", "1h")
        assert not request.segments[-1].cache_point

    run(check)


def picture(n: int) -> Attachment:
    return Attachment(artifact_path=f"fi:turn_1.user.attachments/{n}.png", mime="image/png", data=bytes([n]) * 9)


def test_after_many_pictures_of_one_round_the_last_prefix_is_still_found() -> None:
    async def check() -> None:
        session = await open_session(MemoryStore(), None, HEADER)
        system = SystemTexts((), SystemSettings())
        prompter = PromptBuilder(session, system, PromptSettings(model="m"), observers=[PREFIX_CHECK])

        async def ask(n: int) -> CacheForecast:
            prompt = await prompter.build_prompt(session, AskModel(n, 1, last=False))
            assert prompt.cache
            marked = [at + 1 for at, one in enumerate(prompt.request.segments) if one.cache_point]
            assert marked == [one.blocks for one in prompt.cache.points if one.blocks]
            await session.append([asked(n, prompt.system, cache=prompt.cache)], TURN)
            return prompt.cache

        await session.append([TurnStarted(n=1), UserPrompt(text=LARGE)], TURN)
        before = await ask(1)
        await session.append([picture(n) for n in range(30)], TURN)
        many = await ask(2)
        await session.append([said("and?")], TURN)
        after = await ask(3)
        assert [one.blocks for one in before.points] == [0, 1]
        assert [one.blocks for one in many.points] == [0, 1, 31]
        assert [one.blocks for one in after.points] == [0, 32]
        assert [one.hit.blocks for one in (many, after) if one.hit] == [1, 31]

    run(check)


SYSTEM = "Be good. " * 900


def asked(n: int, system: str = SYSTEM, model: str = "m", cache: CacheForecast | None = None) -> ModelCalled:
    return ModelCalled(round=n, model=model, request_sha256="x", system=system, tail="ANNOUNCE", cache=cache)


def told(n: int, error: str = "", *, reported: bool = True, usage: Usage | None = None) -> ModelAnswered:
    used = Usage(input_tokens=9) if usage is None else usage
    return ModelAnswered(round=n, model="m", stop_reason="end", usage=used, error=error, usage_reported=reported)


def said(text: str) -> Notice:
    return Notice(code="tool_call_error", text=text)


async def changes(*blocks: AnyBlock) -> dict[int, PromptChange | None]:
    """The reason at each call of a log with these blocks."""
    found, _ = await run_replay(await store_entries(make_log(*blocks)), CONVERSATION)
    return {call.seq: call.cache.change for call in found if call.cache}


PROMPT = UserPrompt(text=LARGE)


@pytest.mark.parametrize(
    ("between", "change"),
    [
        (Pruned(cuts=(Cut(2, 2, "old"),)), PromptChange("prune", 2, f"ar:{TURN}.user.prompt")),
        (
            RangeSummary(covered_turn_ids=(), text="sum", first_seq=2, last_seq=3),
            PromptChange("compaction", 2, f"ar:{TURN}.user.prompt"),
        ),
        (Hidden(target=f"ar:{TURN}.user.prompt", replacement="x"), PromptChange("hide", 2, f"ar:{TURN}.user.prompt")),
        (said("new"), PromptChange("not_reported")),
    ],
)
def test_what_was_forgotten_is_the_reason_and_its_first_block_is_named(between: AnyBlock, change: PromptChange) -> None:
    async def check() -> None:
        assert (await changes(PROMPT, asked(1), told(1), between, asked(2), told(2)))[6] == change

    run(check)


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (asked(2, "Be better. " * 900), "system"),
        (asked(2, SYSTEM.rstrip() + "\n\n# Tools\n\nx.y: does"), "catalogue"),
        (asked(2, model="other"), "model"),
    ],
)
def test_another_request_has_its_own_reason(second: ModelCalled, reason: MissReason) -> None:
    async def check() -> None:
        first = asked(1, SYSTEM.rstrip()) if reason == "catalogue" else asked(1)
        assert (await changes(PROMPT, first, told(1), second, told(2)))[5] == PromptChange(reason)

    run(check)


def test_a_call_that_was_turned_away_left_nothing_to_read() -> None:
    async def check() -> None:
        used = Usage(input_tokens=40, cache_write_tokens=9_000)
        found = await changes(PROMPT, asked(1), told(1, "overloaded", usage=Usage()), asked(2), told(2, usage=used))
        assert found[3] == PromptChange("not_reported")
        assert found[5] is None or found[5].reason == "estimate"

    run(check)


def test_calls_without_an_outcome_or_a_report_say_so() -> None:
    async def check() -> None:
        found = await changes(PROMPT, asked(1), asked(2), told(2, reported=False, usage=Usage()), said("x"), asked(3))
        assert [found[3], found[4], found[7]] == [
            PromptChange("no_outcome"),
            PromptChange("not_reported"),
            PromptChange("no_outcome"),
        ]

    run(check)


def test_a_log_of_another_rendering_is_not_said_to_be_edited() -> None:
    async def check() -> None:
        blocks = (PROMPT, asked(1), told(1), asked(2), told(2))
        entries = [
            replace(one, block=replace(one.block, rendering=1)) if isinstance(one.block, ModelCalled) else one
            for one in make_log(*blocks)
        ]
        found, _ = await run_replay(await store_entries(entries), CONVERSATION)
        assert [call.cache.change for call in found if call.cache] == [PromptChange("not_reported")] * 2

    run(check)


async def talked(tmp_path: Path) -> list[Entry]:
    """Return the log of a conversation whose calls recorded their expected cache reads."""
    talk = Talk(tmp_path, answers("one"), answers("two"))
    await talk.say("words " * 3_000)
    await talk.say("and?")
    assert talk.turns
    session = talk.turns.session
    entries = await session.entries(range(1, session.views.tail + 1))
    payloads = {ref: await session.payload(ref) for entry in entries for ref in find_blob_refs(entry)}
    return [restore_payloads(entry, payloads.__getitem__) for entry in entries]


def with_cache(entry: Entry, lifetime: Lifetime) -> Entry:
    block = entry.block
    if not isinstance(block, ModelCalled) or block.cache is None:
        return entry
    points = tuple(replace(point, lifetime=lifetime) for point in block.cache.points)
    return replace(entry, block=replace(block, cache=replace(block.cache, points=points)))


def test_points_that_the_log_does_not_give_are_found(tmp_path: Path) -> None:
    async def check() -> None:
        entries = await talked(tmp_path)
        store = MemoryStore()
        await store.append(CONVERSATION, 0, to_drafts([with_cache(entry, "1h") for entry in entries]))
        _, findings = await run_replay(store, CONVERSATION)
        assert {one.code for one in findings} == {"cache_differs"}

    run(check)


def test_an_entry_that_was_changed_is_named(tmp_path: Path) -> None:
    async def check() -> None:
        entries = await talked(tmp_path)
        at = next(n for n, one in enumerate(entries) if isinstance(one.block, UserPrompt))
        entries[at] = replace(entries[at], block=UserPrompt(text="other words"))
        store = MemoryStore()
        await store.append(CONVERSATION, 0, to_drafts(with_other_hit(entries)))
        found, _ = await run_replay(store, CONVERSATION)
        assert [call.cache.change.reason for call in found if call.cache and call.cache.change][-1:] == ["edit"]

    run(check)


def with_other_hit(entries: list[Entry]) -> list[Entry]:
    """The log as if its second call had not expected to read the prefix of the first."""
    return [
        replace(one, block=replace(one.block, cache=replace(one.block.cache, hit=None)))
        if isinstance(one.block, ModelCalled) and one.block.cache
        else one
        for one in entries
    ]


def test_a_call_whose_text_is_lost_has_no_row_and_harms_no_other(tmp_path: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            await store_entries(
                make_log(PROMPT, asked(1), told(1), asked(2, LARGE + "!"), told(2), asked(3), told(3)), store
            )
            sha256 = ref_of((LARGE + "!").encode()).sha256
            (file,) = (tmp_path / "blobs").rglob(sha256)
            file.unlink()
            found, _ = await run_replay(store, CONVERSATION)
        assert [call.cache is None for call in found] == [False, True, False]

    run(check)
