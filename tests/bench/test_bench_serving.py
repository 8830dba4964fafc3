"""The load generator's dialect for each agent server, and the result for a server that does not start."""

import sys

import pytest

from bench.serving.crowd import ClientConnection, message_to
from bench.serving.dialects import DIALECTS
from bench.serving.plans import Server, ServerAddress
from bench.serving.processes import ServingError, start_process

TOLD: dict[Server, bytes] = {
    "timeloom": b'id: 1\nevent: conv.status\ndata: {"conversation_id":"c1"}\n\n'
    b'event: chat.delta\ndata: {"channel":"answer","text":"81000000 "}\n\n',
    "agno": b'event: RunStarted\ndata: {"run_id":"r1","session_id":"c1"}\n\n'
    b'event: RunContent\ndata: {"session_id":"c1","content":"81000000 "}\n\n',
    "langgraph": b'event: metadata\r\ndata: {"run_id":"r1"}\r\n\r\n'
    b'event: messages\r\ndata: [{"content":"81000000 "},{"thread_id":"c1"}]\r\n\r\n',
}

SENT: dict[Server, tuple[str, bytes]] = {
    "timeloom": ("POST /chat/home/bench HTTP/1.1", b'{"message":"Hello?","conversation_id":"c1"}'),
    "agno": ("POST /agents/bench/runs HTTP/1.1", b"message=Hello%3F&stream=true&session_id=c1"),
    "langgraph": ("POST /threads/c1/runs/stream HTTP/1.1", b'"messages":[{"role":"user","content":"Hello?"}]'),
}


@pytest.mark.parametrize("server", TOLD)
def test_the_answer_of_each_server_is_understood_wherever_it_is_cut(server: Server) -> None:
    dialect, told = DIALECTS[server], TOLD[server]
    for cut in range(len(told)):
        heard: list[tuple[bytes, bytes]] = []
        connection = ClientConnection(b"", lambda _, name, data, heard=heard: heard.append((name, data)))
        connection.data_received(told[:cut])
        connection.data_received(told[cut:])
        deltas = [data for name, data in heard if name == dialect.delta]
        assert [data[data.find(dialect.text) :].count(b"81000000 ") for data in deltas] == [1]
        assert [found[1] for _, data in heard if (found := dialect.conversation.search(data))][:1] == [b"c1"]


@pytest.mark.parametrize("server", SENT)
def test_a_message_goes_to_the_conversation_in_the_servers_way(server: Server) -> None:
    head, _, body = message_to(ServerAddress(1, server=server), "Hello?", "c1").partition(b"\r\n\r\n")
    line, part = SENT[server]
    assert head.decode().splitlines()[0] == line
    assert part in body
    assert f"content-length: {len(body)}" in head.decode()


def test_a_server_that_does_not_start_says_so() -> None:
    with pytest.raises(ServingError), start_process([sys.executable, "-c", ""]):
        pass
