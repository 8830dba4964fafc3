"""Makes the document tools if the settings enable them."""

import logging
from collections.abc import Sequence
from ctypes.util import find_library
from importlib.util import find_spec
from typing import Final

from timeloom.config.errors import ConfigError
from timeloom.config.sandboxes import apply_profile
from timeloom.config.sections.execution import RuntimeSettings
from timeloom.config.settings import Settings
from timeloom.ports.sandbox import Sandbox
from timeloom.ports.tool import Tool

EXTRA: Final = ("docx", "markdown_it", "mdit_py_plugins", "nh3", "pptx", "pypdfium2", "weasyprint")
"""Modules of the extra `documents`."""

LIBRARIES: Final = ("pango-1.0", "pangoft2-1.0", "harfbuzz-subset")
"""The system libraries with which WeasyPrint sets text."""

_logger = logging.getLogger(__name__)


def make_document_tools(settings: Settings, sandbox: Sandbox) -> Sequence[Tool]:
    """Return the tools, none if they are off; without Pango those that need none. Raises `ConfigError`.

    Only the interpreter of this process is examined. In containers and with an interpreter of its own, a missing part
    becomes the error of a call.
    """
    if not settings.documents.enabled:
        return ()
    # Lazy: an agent without documents starts faster without them.
    from timeloom.tools.documents import tools  # noqa: PLC0415

    if not _uses_own_python(apply_profile(settings.execution.runtime)):
        return tools.make_document_tools(sandbox)
    check_packages(EXTRA)
    absent = find_missing_libraries(LIBRARIES)
    if absent:
        _logger.warning(
            "write_pdf and write_png are not offered: %s is missing; "
            "apt-get install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0",
            ", ".join(absent),
        )
    return tools.make_document_tools(sandbox, has_pango=not absent)


def check_packages(modules: Sequence[str]) -> None:
    """Raise `ConfigError` if one of these modules is not installed."""
    if missing := [name for name in modules if find_spec(name) is None]:
        raise ConfigError(
            "setting_invalid",
            f"documents.enabled needs packages that are not installed ({', '.join(missing)}); "
            'install "timeloom[documents]"',
        )


def find_missing_libraries(names: Sequence[str]) -> list[str]:
    """Return those of the system libraries that this machine does not have."""
    return [name for name in names if find_library(name) is None]


def _uses_own_python(runtime: RuntimeSettings) -> bool:
    return runtime.mode == "local" and not runtime.python
