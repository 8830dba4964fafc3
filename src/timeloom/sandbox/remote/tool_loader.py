"""Loads a bundle's tools in the task and runs the calls that were delegated to the task."""

import asyncio
import importlib.util
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import msgspec

from timeloom.core.blocks import ToolError, make_tool_error
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views
from timeloom.platform.secrets import SECRETS, RedactingFilter
from timeloom.ports.bundle_context import BundleContext, use_bundle
from timeloom.ports.clock import Clock
from timeloom.ports.sandbox import CallDelegation, DelegatedCall
from timeloom.ports.tool import Artifact, Outcome, Tool, ToolContext, ToolSpec

MAX_KEPT_CHARS: Final = 256 * 1024
"""Characters of an answer that are kept for the timeline; the program gets the whole answer."""

MAX_CALLS: Final = 200
"""Most delegated calls of a program, even if the caller allows more: each is reported to the caller."""

_CALL_PATH_PREFIX: Final = "tc:"
"""Prefix of paths that belong to a call and name no file."""

CallReporter = Callable[[DelegatedCall], None]
_logger = logging.getLogger(__name__)
_logger.addFilter(RedactingFilter(SECRETS))


class ToolModuleError(Exception):
    """A tool module that cannot be loaded; the message says which and why."""


@dataclass(slots=True)
class TaskToolRunner:
    """Runs delegated calls with the tools of this task, and reports each call."""

    tools: dict[str, Tool]
    delegation: CallDelegation
    out_dir: Path
    clock: Clock
    bundle: BundleContext | None = None
    """What the tools may read of their bundle."""
    _calls_started: int = 0

    def can_call(self, tool_id: str) -> bool:
        """Return whether the tool is loaded and delegated to the task."""
        return tool_id in self.delegation.tool_ids and tool_id in self.tools

    async def call(self, tool_id: str, params: str, report: CallReporter) -> str:
        """Return the answer to a delegated call; a failure is an answer too.

        `report` gets the call when it has ended, also if it was interrupted.
        """
        most = min(self.delegation.most_calls, MAX_CALLS)
        if self._calls_started >= most:
            return _encode_envelope(
                make_tool_error("gate_refused", f"a program may make {most} such calls, and has made them")
            )
        self._calls_started += 1
        stopped = "the call was stopped together with the program; whether it had an effect is not known"
        answer = _encode_envelope(make_tool_error("tool_interrupted", stopped))
        try:
            with _use(self.bundle):
                # The answer goes to the program and the timeline, and neither may contain a secret.
                answer = SECRETS.redact(await self._run_tool(self.tools[tool_id], params))
        finally:
            report(DelegatedCall(tool_id=tool_id, params=params, answer=_truncate_answer(answer)))
        return answer

    async def _run_tool(self, tool: Tool, params: str) -> str:
        try:
            async with asyncio.timeout(tool.spec.deadline_s):
                return encode_outcome(await tool.call(params, self._context()))
        except TimeoutError:
            late = f"the tool did not finish within {tool.spec.deadline_s:g} s"
            return _encode_envelope(make_tool_error("tool_timeout", late))
        except Exception as error:
            _logger.exception("a tool raised")
            return _encode_envelope(make_tool_error("tool_call_error", f"the tool raised {type(error).__name__}"))

    def _context(self) -> ToolContext:
        return ToolContext(
            conversation=self.delegation.conversation,
            turn_id=self.delegation.turn_id,
            tool_call_id=self.delegation.tool_call_id,
            caller=self.delegation.caller,
            timeline=_EmptyTimeline(),
            out_dir=self.out_dir,
            emit=_log_emitted,
            epoch_us=self.clock.epoch_us(),
        )


def load_tools(modules: Iterable[Path], bundle: BundleContext | None = None) -> dict[str, Tool]:
    """Return the tools at the top level of the modules by id; raise `ToolModuleError`.

    The modules may read the settings of the bundle while they are imported.
    """
    found: dict[str, Tool] = {}
    for path in modules:
        with _use(bundle):
            values = vars(_load_module(path)).values()
        for value in values:
            spec = getattr(value, "spec", None)
            if isinstance(spec, ToolSpec) and callable(getattr(value, "call", None)):
                found[spec.tool_id] = cast(Tool, value)
    return found


def _use(bundle: BundleContext | None) -> AbstractContextManager[object]:
    return use_bundle(bundle) if bundle else nullcontext()


def encode_outcome(outcome: Outcome) -> str:
    """Encode the outcome for a program: the error and the results; a single result alone, several with paths."""
    error = outcome.error or next((each.error for each in outcome.artifacts if each.error), None)
    texts = [each for each in outcome.artifacts if isinstance(each.text, str)]
    text = outcome.summary or outcome.status
    ret: object = None
    if len(outcome.artifacts) == len(texts) == 1 and texts[0].path.startswith(_CALL_PATH_PREFIX):
        ret = _artifact_value(texts[0])
    elif outcome.artifacts:
        listed = [{"path": each.path, "mime": each.mime, "text": each.text} for each in texts]
        ret = {"artifacts": listed, "status": text or ""}
    elif text and error is None:
        ret = _parse_json(text)
    return _encode_envelope(error, ret)


def _load_module(path: Path) -> object:
    # A unique module name, because two bundles may both have a `tools.py`.
    name = f"timeloom_tools_{path.stem}_{abs(hash(str(path))):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ToolModuleError(f"the module of tools {path.name!a} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        message = f"the module of tools {path.name!a} cannot be loaded: {type(error).__name__}: {str(error)[:200]}"
        raise ToolModuleError(message) from error
    return module


class _EmptyTimeline:
    """An empty timeline: the conversation is not available in the task."""

    @property
    def views(self) -> Views:
        return Views()

    async def entries(self, seqs: Sequence[int]) -> list[Entry]:
        return []

    async def payload(self, ref: BlobRef) -> bytes:
        raise LookupError("the conversation is not where this tool runs")


def _log_emitted(channel: str, text: str, /) -> None:
    _logger.debug("on %s: %s", channel, text[:200])


def _artifact_value(artifact: Artifact) -> object:
    text = cast(str, artifact.text)
    return _parse_json(text) if "json" in artifact.mime else text


def _parse_json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _encode_envelope(error: ToolError | None, ret: object = None) -> str:
    return msgspec.json.encode({"ok": error is None, "error": error, "ret": ret}).decode()


def _truncate_answer(answer: str) -> str:
    """Return the answer, or the start of a long one, still as an object with `ok`, `error` and `ret`."""
    if len(answer) <= MAX_KEPT_CHARS:
        return answer
    return _encode_envelope(None, f"{answer[:MAX_KEPT_CHARS]}...[truncated]")
