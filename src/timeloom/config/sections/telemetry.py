"""Settings of telemetry: where spans are sent, and what they say."""

from typing import Annotated

import msgspec

from timeloom.config.field_help import About
from timeloom.config.value_types import Url


class TelemetrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a collector of OpenTelemetry is told."""

    endpoint: Annotated[
        Url,
        About(
            "Where spans are sent by OTLP over HTTP, without `/v1/traces`; empty sends none.",
            lifts_guard=True,
        ),
    ] = ""
    content: Annotated[bool, About("Whether spans hold what models wrote and tools were given.", lifts_guard=True)] = (
        False
    )
