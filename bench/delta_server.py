"""A model service for benchmarks that sends prepared streams; it runs as a separate process.

Prints its port. Each request is answered by the next line of standard input: the events, and the pause between them.
"""

import socket
import sys
import time

import msgspec


class StreamPlan(msgspec.Struct, frozen=True):
    """Events of a stream; without a pause they are sent all at once."""

    events: list[str]
    pause_s: float


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def main() -> None:
    """Serve one connection after the other until standard input ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while line := sys.stdin.readline():
            plan = msgspec.json.decode(line, type=StreamPlan)
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection:
                _read_request(connection)
                _send(connection, plan)


def _read_request(connection: socket.socket) -> None:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-len"))
    left = length - len(body)
    while left > 0:
        left -= len(connection.recv(65536))


def _send(connection: socket.socket, plan: StreamPlan) -> None:
    """Send one chunk per event, like servers that flush each event."""
    chunks = [b"%x\r\n%b\r\n" % (len(data), data) for data in (event.encode() for event in plan.events)]
    if not plan.pause_s:
        connection.sendall(b"".join((HEAD, *chunks, LAST_CHUNK)))
    else:
        connection.sendall(HEAD)
        for chunk in chunks:
            connection.sendall(chunk)
            time.sleep(plan.pause_s)
        connection.sendall(LAST_CHUNK)
    # Wait until the client has hung up: the next connection belongs to the next client.
    while connection.recv(65536):
        pass


if __name__ == "__main__":
    main()
