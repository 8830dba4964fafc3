"""Settings of OpenTelemetry spans."""

from typing import Annotated

import msgspec

from timeloom.config.field_help import SettingHelp
from timeloom.config.value_types import Url


class TelemetrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The export of spans to an OpenTelemetry collector."""

    endpoint: Annotated[
        Url,
        SettingHelp("URL of the collector for OTLP over HTTP, without `/v1/traces`; empty sends no spans."),
    ] = ""
    content: Annotated[
        bool,
        SettingHelp("Whether spans contain the replies of models and the parameters of tools."),
    ] = False
