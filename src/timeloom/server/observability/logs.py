"""Formats the server's log as JSON Lines that contain ids but no message texts."""

import logging
from typing import Final, cast

import msgspec

from timeloom.platform.secrets import SECRETS
from timeloom.ports.clock import timestamp

ROOT_LOGGER: Final = "timeloom"


class JsonLogFormatter(logging.Formatter):
    """Formats a record as one JSON object; the record's `fields` are merged into it."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "ts": timestamp(int(record.created * 1_000_000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            # Libraries quote the offending text after the first line of their messages.
            "message": record.getMessage().partition("\n")[0],
        }
        fields |= cast(dict[str, object], getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0]:
            # Only the type and the location: the text of an error may quote a message.
            fields["error"] = record.exc_info[0].__name__
            fields["where"] = _traceback_locations(record)
        return SECRETS.redact(msgspec.json.encode(fields, enc_hook=str).decode())


def log_to_stderr(level: int = logging.INFO) -> None:
    """Write the server's log to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLogFormatter())
    # asyncio warns about every client that disconnects before it has read everything.
    for name, least in ((ROOT_LOGGER, level), ("uvicorn.error", logging.WARNING), ("asyncio", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least)


def _traceback_locations(record: logging.LogRecord) -> list[str]:
    places: list[str] = []
    trace = record.exc_info[2] if record.exc_info else None
    while trace:
        code = trace.tb_frame.f_code
        places.append(f"{trace.tb_frame.f_globals.get('__name__', '')}.{code.co_name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return places[-8:]
