"""The local model with its real weights: a few short replies."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from msgspec.structs import replace

from tests.harness import local_model
from timeloom.core.codes import CodedError
from timeloom.core.policy.read_reply import read_reply
from timeloom.core.stream.decision import CallToolDecision, CompleteDecision
from timeloom.ports.model import FinishEvent, Model, ModelError, ModelEvent, ModelRequest, TextPiece, TextSegment
from timeloom.providers.registry import LOCAL, default_model_name, model_notice, open_model
from timeloom.testing.conformance.cases import CaseScene, ConformanceCase
from timeloom.testing.conformance.scenes import build_request
from timeloom_local import grammar, prompts, weights
from timeloom_local.engine import GenerationEnd, GenerationRequest
from timeloom_local.model import LocalModel
from timeloom_local.reply import Slot
from timeloom_local.routing.wordpiece import WordPieceTokenizer
from timeloom_local.slots import SlotText

pytestmark = pytest.mark.slow

POEM = replace(
    build_request(ConformanceCase(id="poem", say="Write a poem about rain"), CaseScene()), max_output_tokens=16
)
MAIL = (
    '{"type":"object","properties":{"when":{"enum":["now","later"]},"copies":{"type":"integer"},'
    '"tags":{"type":"array","items":{"$ref":"#/$defs/Tag"}},"price":{"anyOf":[{"type":"null"},{"type":"number"}]},'
    '"ok":{"type":"boolean"},"more":{"type":"string"}},"required":["when","copies","tags","price","ok"],'
    '"$defs":{"Tag":{"type":"object","properties":{"kind":{"enum":["a","b"]}},"required":["kind"]}}}'
)


class Tag(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["a", "b"]


class Mail(msgspec.Struct, forbid_unknown_fields=True):
    when: Literal["now", "later"]
    copies: int
    tags: list[Tag]
    price: float
    ok: bool


def run(work: Callable[[LocalModel], Awaitable[None]]) -> None:
    async def body() -> None:
        await work(local_model.model())

    asyncio.run(body())


async def events(model: Model, request: ModelRequest) -> list[ModelEvent]:
    async with aclosing(model.stream(request)) as stream:
        return [event async for event in stream]


def text_of(found: list[ModelEvent]) -> str:
    return "".join(event.text for event in found if isinstance(event, TextPiece))


def test_the_same_request_gets_the_same_well_formed_reply_in_pieces() -> None:
    async def work(model: LocalModel) -> None:
        first, second = await events(model, POEM), await events(model, POEM)
        assert first == second
        assert len(first) > 3
        reply = read_reply(text_of(first))
        assert not reply.faults
        assert isinstance(reply.decisions[0], CompleteDecision)
        finished = first[-1]
        assert isinstance(finished, FinishEvent)
        assert finished.usage.output_tokens > 0
        assert 0 < finished.usage.input_tokens <= 1_500

    run(work)


def test_two_at_once_wait_for_each_other_and_do_not_mix() -> None:
    other = replace(
        build_request(ConformanceCase(id="tea", say="Write a haiku about tea to tea.md"), CaseScene()),
        max_output_tokens=30,
    )

    async def work(model: LocalModel) -> None:
        alone = [text_of(await events(model, request)) for request in (POEM, other)]
        together = await asyncio.gather(events(model, POEM), events(model, other))
        assert [text_of(found) for found in together] == alone
        decision = read_reply(alone[1]).decisions[0]
        assert isinstance(decision, CallToolDecision)
        assert decision.tool_id == "react.write"

    run(work)


def test_a_reply_that_is_given_up_stops_and_the_next_is_whole() -> None:
    async def work(model: LocalModel) -> None:
        async with aclosing(model.stream(POEM)) as stream:
            await anext(stream)
            await anext(stream)
        assert isinstance((await events(model, POEM))[-1], FinishEvent)

    run(work)


def test_titles_and_summaries_are_short_prose() -> None:
    def asked(purpose: str) -> ModelRequest:
        said = TextSegment("[TURN turn_1] ts=x\n\n[USER MESSAGE]\nHow do I grow tomatoes on a balcony?\n")
        request = {"system": "", "segments": [said, TextSegment("")], "purpose": purpose, "opening": "Tomatoes?"}
        return msgspec.convert(msgspec.to_builtins(request), ModelRequest)

    async def work(model: LocalModel) -> None:
        for purpose in ("title", "compaction"):
            text = text_of(await events(model, asked(purpose)))
            assert 0 < len(text) <= 420
            assert "\n" not in text
            assert "<" not in text

    run(work)


def test_a_title_has_only_words_of_the_message() -> None:
    async def work(model: LocalModel) -> None:
        request = ModelRequest(system="", segments=(TextSegment(""),), purpose="title", opening="What can you do?")
        assert text_of(await events(model, request)) == "What can you do?"

    run(work)


def test_after_closing_nothing_is_answered_and_closing_again_does_nothing() -> None:
    async def body() -> None:
        model = LocalModel()
        await model.close()
        await model.close()
        with pytest.raises(ModelError, match="closed"):
            await events(model, POEM)

    asyncio.run(body())


def write(*writings: GenerationRequest) -> list[tuple[str, GenerationEnd]]:
    async def body() -> list[tuple[str, GenerationEnd]]:
        done: list[tuple[str, GenerationEnd]] = []
        for writing in writings:
            text = ""
            async with aclosing(local_model.engine().write(writing)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, GenerationEnd):
                        done.append((text, piece))
                    else:
                        text += piece
        return done

    return asyncio.run(body())


def test_what_is_written_keeps_its_grammar() -> None:
    mail = GenerationRequest(
        prompt=prompts.for_parameters("Send three copies to Kim", "Sends mail.", ()),
        grammar=grammar.parameters(MAIL),
        max_tokens=400,
    )
    summary = GenerationRequest(prompt=prompts.for_summary("Tea."), grammar=grammar.sentence(60), max_tokens=30)
    (params, _), (said, _) = write(mail, summary)
    assert msgspec.json.decode(params, type=Mail).tags
    assert "\n" not in said


def test_a_text_that_is_stopped_at_its_limit_says_so() -> None:
    ((text, end),) = write(
        GenerationRequest(prompt=prompts.for_text("Write a story"), grammar=grammar.prose(900), max_tokens=5)
    )
    assert text
    assert not end.whole
    assert end.output_tokens == 5


def test_a_grammar_that_is_none_is_a_failure_with_a_reason() -> None:
    with pytest.raises(ModelError, match="grammar"):
        write(GenerationRequest(prompt="x", grammar="root ::= nothing", max_tokens=5))


@pytest.mark.parametrize("text", ["x" * 100_000, "é" * 50_000, "日本" * 30_000, "<|im_end|>" * 9_000])
def test_no_prompt_is_longer_than_its_bound(text: str) -> None:
    made = [
        prompts.for_text(text),
        prompts.for_summary(text),
        prompts.for_parameters(text, text, [text]),
    ]
    assert max(len(prompt.encode()) for prompt in made) <= prompts.MAX_PROMPT_BYTES
    assert all(prompt.count("<|im_end|>") == prompt.count("<|im_start|>") - 1 for prompt in made)


@pytest.mark.parametrize(
    ("form", "pieces", "whole", "expected"),
    [
        ("string", ["  a", ' "b"', " \n"], True, 'a \\"b\\"'),
        ("string", ["a"], False, "a…"),
        ("string", ["  "], True, "…"),
        ("raw", ["a \n", "b "], True, "a \nb"),
    ],
)
def test_a_place_is_filled_in_its_form(form: str, pieces: list[str], *, whole: bool, expected: str) -> None:
    slot = msgspec.convert({"generation": {"prompt": "", "grammar": "", "max_tokens": 1}, "form": form}, Slot)
    filling = SlotText(slot)
    assert "".join([*map(filling.feed, pieces), filling.close(is_complete=whole)]) == expected


def test_sentences_of_one_meaning_are_alike() -> None:
    model = local_model.sentences()
    near = model.similarity("How much does the ticket cost?", "What is the price of the ticket?")
    assert near > model.similarity("How much does the ticket cost?", "The sun is a star") + 0.4
    assert model.similarity("same", "same") == pytest.approx(1.0, abs=1e-4)


def test_words_are_cut_into_known_pieces() -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "ferr", "##ies", "!", "日"]
    pieces = WordPieceTokenizer({word: number for number, word in enumerate(words)})
    assert pieces.encode("The\tFérries!日", 20) == [2, 4, 5, 6, 7, 8, 3]
    assert pieces.encode("the zebra " + "x" * 200, 20) == [2, 4, 1, 1, 3]
    assert pieces.encode("the the the the", 4) == [2, 4, 4, 3]


def test_the_local_model_has_a_name_and_a_notice() -> None:
    model = open_model("local", environ={})
    assert (model.name, model.window_tokens) == ("local", 128_000)
    asyncio.run(model.close())
    assert "demo model" in model_notice(LOCAL)
    assert "ANTHROPIC_API_KEY" in model_notice(LOCAL)
    assert model_notice("openai:x") == ""


def test_without_a_setting_the_local_model_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_model_name({"ANTHROPIC_API_KEY": "k"}) == LOCAL
    assert default_model_name({"TIMELOOM_MODEL": " openai:x "}) == "openai:x"
    monkeypatch.setenv("TIMELOOM_MODEL", "script:a.yaml")
    assert default_model_name() == "script:a.yaml"


def test_where_it_is_not_installed_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_ENGINES", ("no_such_package",))
    with pytest.raises(CodedError, match=r"no_such_package.*pip install 'timeloom\[local\]'") as caught:
        open_model("local", environ={})
    assert caught.value.code == "model_not_installed"
    with pytest.raises(CodedError, match="name one with --model"):
        default_model_name({})


def test_a_package_without_its_weights_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_WRITER", ("msgspec", "no.gguf"))
    with pytest.raises(CodedError, match=r"msgspec with no\.gguf in it") as caught:
        weights.writer_weights()
    assert str(Path(msgspec.__file__).parent) not in str(caught.value)
