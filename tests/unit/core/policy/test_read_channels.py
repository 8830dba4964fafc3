"""The declared channels of a reply: bounded, checked, and without the escapes of the prompt."""

from timeloom.core.policy.read_channels import MAX_CHANNEL_CHARS, MAX_INSTANCES, ReadChannels, read_channels
from timeloom.core.stream.declared import DeclaredChannel

CHART = DeclaredChannel(name="chart", mime="application/json")
LOG = DeclaredChannel(name="log", mime="text/plain")


def read(text: str) -> ReadChannels:
    return read_channels(text, (CHART, LOG), 2)


def test_json_is_kept_as_it_was_written() -> None:
    found = read('<channel:chart>\n{"a": [1,  2]}\n</channel:chart>')
    assert [(one.channel.name, one.text, one.is_cut) for one in found.written] == [("chart", '{"a": [1,  2]}', False)]
    assert (found.remarks, found.rest) == ((), "")


def test_text_that_is_not_json_is_kept_with_a_remark() -> None:
    for text in ("{", "[1] [2]", "", "[" * 5000):
        found = read(f"<channel:chart>{text}</channel:chart>")
        assert [one.text for one in found.written] == [text]
        assert [one.code for one in found.remarks] == ["channel_not_json"]
    assert read("<channel:log>{</channel:log>").remarks == ()


def test_a_long_text_is_cut_with_a_remark() -> None:
    found = read(f"<channel:chart>{'1' * (MAX_CHANNEL_CHARS + 1)}</channel:chart>")
    assert [(len(one.text), one.is_cut) for one in found.written] == [(MAX_CHANNEL_CHARS, True)]
    assert [one.code for one in found.remarks] == ["channel_too_long"]
    whole = read(f"<channel:log>{'1' * MAX_CHANNEL_CHARS}</channel:log>")
    assert (whole.written[0].is_cut, whole.remarks) == (False, ())


def test_too_many_instances_are_dropped_with_a_remark() -> None:
    found = read("<channel:log>a</channel:log>" * (MAX_INSTANCES + 1))
    assert len(found.written) == MAX_INSTANCES
    assert [one.code for one in found.remarks] == ["channel_too_long"]


def test_escapes_that_the_model_copied_from_the_prompt_are_removed() -> None:
    assert read("<channel:chart>\n~[1, 2]\n</channel:chart>").written[0].text == "[1, 2]"


def test_an_unclosed_channel_is_remarked() -> None:
    found = read("<channel:log>half")
    assert (found.written[0].is_cut, [one.code for one in found.remarks]) == (
        True,
        ["protocol_violation.channel_unclosed"],
    )
