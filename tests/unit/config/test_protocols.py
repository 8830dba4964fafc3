"""The protocol of a model: its own, one by the beginning of its name, or the default."""

from timeloom.config.models import protocol_of
from timeloom.core.blocks.round import ReplyProtocol


def test_the_most_exact_name_decides_the_protocol() -> None:
    table: dict[str, ReplyProtocol] = {
        "openai:*": "native",
        "openai:small*": "channels",
        "openai:small-1": "native",
    }
    found = [protocol_of(name, "channels", table) for name in ("openai:a", "openai:small-2", "openai:small-1", "local")]
    assert found == ["native", "channels", "native", "channels"]
    assert protocol_of("local", "native", table) == "native"
