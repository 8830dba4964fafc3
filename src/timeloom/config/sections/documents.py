"""Settings of the document tools."""

from typing import Annotated

import msgspec

from timeloom.config.field_help import SettingHelp


class DocumentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The tools `rendering_tools.write_pdf`, `write_docx`, `write_pptx` and `write_png`."""

    enabled: Annotated[
        bool,
        SettingHelp(
            "Whether agents write PDF, Word, slides and pictures. Needs the extra `documents` in the Python of the "
            "sandbox; PDF and PNG also need Pango (`apt-get install libpangoft2-1.0-0 libharfbuzz-subset0`)."
        ),
    ] = False
