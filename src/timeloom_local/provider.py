"""The entry point of the local model in the group `timeloom.providers`."""

from typing import Final

from timeloom.ports.model import Model
from timeloom.providers.registry import Provider
from timeloom.providers.settings import ModelSettings
from timeloom_local.weights import INSTALL, is_installed

DEMO_NOTICE: Final = (
    "This is a demo model that runs on this machine. It shows how timeloom works: it does a few things by fixed rules, "
    "and it knows no facts. For real work name a model: --model anthropic:<id> with ANTHROPIC_API_KEY, or "
    "--model openai:<id> with OPENAI_API_KEY or OPENAI_BASE_URL."
)

EXAMPLES: Final = (
    "Make a plan for a birthday party",
    'Write "Milk and apples" to list.txt, then replace "apples" with "pears" in list.txt, then show me list.txt',
    "Calculate 17 * 23 with a program",
)
"""Messages that this model handles well, one for each kind: a plan, files, and a program."""


def _open(_identity: str, _settings: ModelSettings) -> Model:
    from timeloom_local.model import LocalModel  # noqa: PLC0415 - the YAML parser takes 20 ms

    return LocalModel()


def _install() -> str:
    return "" if is_installed() else INSTALL


provider: Final = Provider(
    open=_open, notice=DEMO_NOTICE, install=_install, is_demo=True, remote=False, examples=EXAMPLES
)
