"""Traits of tools: the recorded ones count, then the built-in ones of the id, then the defaults."""

import msgspec
import pytest

from timeloom.core.blocks import ToolCall, ToolTraits
from timeloom.core.blocks.redact import redact_block
from timeloom.core.blocks.tool_traits import find_builtin_traits, resolve_traits
from timeloom.core.ids import CallId, TurnId
from timeloom.core.timeline import Draft, to_entry
from timeloom.wire.block_json import decode_block, encode_block
from timeloom.wire.record import decode_record, encode_record

CALL, TURN, TS = CallId("18f62649fb3b"), TurnId("turn_1"), "2026-02-09T02:14:32.676425Z"
TRAITS = ToolTraits(result_text="file", path_param="to", content_param="text")


def test_declared_traits_come_before_the_built_in_ones() -> None:
    assert resolve_traits("react.read", TRAITS) == TRAITS
    assert resolve_traits("react.read", ToolTraits()) == ToolTraits()
    assert resolve_traits("react.read", None).reads_artifacts


@pytest.mark.parametrize(
    ("tool_id", "traits"),
    [
        ("react.unheard_of", ToolTraits(conversation_only=True)),
        ("exec_tools.execute_code_python", ToolTraits(runs_code=True)),
        ("exec_tools.other.run", ToolTraits(runs_code=True)),
        ("exec_tools", ToolTraits()),
        ("reactor.read", ToolTraits()),
        ("", ToolTraits()),
    ],
)
def test_an_id_outside_the_table_has_the_traits_of_its_family_or_the_defaults(tool_id: str, traits: ToolTraits) -> None:
    assert find_builtin_traits(tool_id) == traits


def test_a_call_without_recorded_traits_has_the_built_in_ones() -> None:
    call = ToolCall(tool_id="react.write", tool_call_id=CALL)
    assert call.known_traits == find_builtin_traits("react.write")
    assert b"traits" not in encode_record(Draft(TURN, TS, call))
    assert b"traits" not in encode_block(Draft(TURN, TS, call))


def test_recorded_traits_are_stored_without_their_defaults_and_read_back() -> None:
    entry = to_entry(Draft(TURN, TS, ToolCall(tool_id="notes.save", tool_call_id=CALL, traits=TRAITS)), 1)
    assert b'"traits":{"result_text":"file","path_param":"to","content_param":"text"}' in encode_record(entry)
    assert decode_record(encode_record(entry), 1) == entry
    exported = encode_block(entry)
    assert msgspec.json.decode(exported)["meta"] == {"traits": msgspec.to_builtins(TRAITS)}
    assert decode_block(exported, TS).block == entry.block


def test_default_traits_are_recorded_for_a_tool_that_takes_a_built_in_id() -> None:
    entry = to_entry(Draft(TURN, TS, ToolCall(tool_id="react.read", tool_call_id=CALL, traits=ToolTraits())), 1)
    assert b'"traits":{}' in encode_record(entry)
    block = decode_record(encode_record(entry), 1).block
    assert isinstance(block, ToolCall)
    assert block.known_traits == ToolTraits()


def test_an_erased_call_keeps_its_traits() -> None:
    erased = redact_block(ToolCall(tool_id="notes.save", tool_call_id=CALL, params='{"text":"x"}', traits=TRAITS))
    assert isinstance(erased, ToolCall)
    assert (erased.erased, erased.known_traits) == (True, TRAITS)
