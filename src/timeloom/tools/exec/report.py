"""Builds the result of a finished program: its outcome and a report in Markdown for the model."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, assert_never

import msgspec

from timeloom.core.blocks import ToolError, make_tool_error
from timeloom.ports.sandbox import MIB, ExecutionLimits, ProgramResult
from timeloom.ports.tool import Artifact, Outcome, ToolNotice
from timeloom.tools.exec.collect_outputs import CollectedFiles
from timeloom.tools.exec.inputs import ProgramInputs
from timeloom.tools.exec.output_folder import RefusedFile

TAIL_CHARS: Final = 4_000
"""Most characters of printed output that the report repeats, taken from its end."""

MAX_LISTED: Final = 20
"""Most lines of one list. Names come from a program, so their number is unbounded."""

_MAX_LINE_CHARS: Final = 300


class RunEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a program, the same for all sandbox backends."""

    ok: bool
    artifacts: tuple[Artifact, ...]
    error: ToolError | None
    report_text: str
    user_out_tail: str
    runtime_err_tail: str

    def outcome(self, notices: tuple[ToolNotice, ...] = ()) -> Outcome:
        """Return the call's outcome: the report first, then the files."""
        return Outcome(
            notices=notices,
            status=self.report_text,
            status_mime="text/markdown",
            artifacts=self.artifacts,
            error=self.error,
        )


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known about a finished program."""

    ran: ProgramResult
    limits: ExecutionLimits
    max_timeout_s: float
    inputs: ProgramInputs
    produced: CollectedFiles
    calls: Mapping[str, Counter[str]]
    printed: Mapping[str, int]
    """Number of characters printed on each stream; the sandbox keeps only the last ones."""
    show_place: Callable[[str], str] = str
    """Returns the path of a file in OUT_DIR as the prompt names it."""


def build_envelope(run: FinishedRun) -> RunEnvelope:
    """Return the result of the program."""
    error = _find_error(run)
    out, err = run.ran.stdout_tail[-TAIL_CHARS:], run.ran.stderr_tail[-TAIL_CHARS:]
    return RunEnvelope(
        ok=error is None,
        artifacts=tuple(run.produced.artifacts),
        error=error,
        report_text="\n".join(_report_lines(run, error, out, err)),
        user_out_tail=out,
        runtime_err_tail=err,
    )


def _find_error(run: FinishedRun) -> ToolError | None:
    """Return the error of the program; if it has none, the error of its contract."""
    ran, missing = run.ran, [run.show_place(one.name) for one in run.produced.errors]
    details: dict[str, str | int | float | bool | None] = {}
    if missing:
        details["missing_artifact"] = ", ".join(missing[:MAX_LISTED])
    if ran.ending != "exited":
        details |= {"ending": ran.ending, "exit_code": ran.exit_code}
        code = "execution_failed" if ran.ending == "killed" else "execution_limit"
        return msgspec.structs.replace(make_tool_error(code, _limit_message(run)), details=details)
    if ran.exit_code:
        details["exit_code"] = ran.exit_code
        return msgspec.structs.replace(make_tool_error("execution_failed", _last_error_line(ran)), details=details)
    if missing:
        return msgspec.structs.replace(make_tool_error("missing_artifact", _missing_message(missing)), details=details)
    return None


def _missing_message(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"Missing output files: {', '.join(names[:MAX_LISTED])}{more}"


def _last_error_line(ran: ProgramResult) -> str:
    """Return the last line on stderr, which names the error in a traceback."""
    lines = [line for line in ran.stderr_tail.splitlines() if line.strip()]
    text = flatten_text(lines[-1]) if lines else f"the program ended with exit code {ran.exit_code}"
    return f"{text} ({flatten_text(ran.detail)})" if ran.detail else text


def _limit_message(run: FinishedRun) -> str:
    """Return which limit ended the program, and how to stay below it."""
    ran, limits = run.ran, run.limits
    match ran.ending:
        case "timeout":
            text = f"the program ran longer than {limits.wall_s:g} s; do less at once, or give a larger timeout_s"
            text += f" (up to {run.max_timeout_s:g})"
        case "cpu":
            text = f"the program used more than {limits.cpu_s:g} s of processor time; do less, or in a quicker way"
        case "memory":
            text = f"the program used more than {limits.memory_bytes // MIB} MiB of memory; work on parts of the data"
        case "output":
            text = f"the program printed more than {limits.output_bytes // 1024} KiB; write long output to a file"
        case "growth":
            most = f"{limits.growth_bytes // MIB} MiB or {limits.growth_files} files"
            text = f"the program wrote more than {most}; keep only what is needed"
        case "killed" | "exited":
            text = f"the program was ended by a signal (exit code {ran.exit_code})"
        case _:
            assert_never(ran.ending)
    return f"{text} ({flatten_text(ran.detail)})" if ran.detail and ran.ending != "timeout" else text


def _report_lines(run: FinishedRun, error: ToolError | None, out: str, err: str) -> Iterator[str]:
    produced, inputs = run.produced, run.inputs
    if error:
        code = "execution_failed" if error.code == "missing_artifact" else error.code
        yield f"Runtime error: {code} — {error.message}"
    elif not produced.artifacts:
        yield "The program ended without an error."
    yield from _list_lines("File errors:", [_refusal_line(one, run) for one in produced.errors])
    yield from _list_lines("Succeeded:", map(run.show_place, produced.declared))
    yield from _list_lines("Changed files, which the user still sees:", map(run.show_place, produced.edited))
    yield from _list_lines(
        "Kept as internal files, because the contract does not name them:", map(run.show_place, produced.extra)
    )
    yield from _list_lines(
        "Moved, because files belong into the current turn:",
        [
            f"{flatten_text(run.show_place(one.source_path))} is now {run.show_place(one.target)}"
            for one in produced.moved
        ],
    )
    yield from _list_lines("Not kept:", [_refusal_line(one, run) for one in produced.refused])
    if not produced.complete:
        yield "Not kept: further files, because there are too many."
    yield from _list_lines("Named in the code and not found:", inputs.missing)
    yield from _list_lines(
        "Not given to the program, because the input files exceed the limit:",
        (flatten_text(run.show_place(one)) for one in inputs.omitted),
    )
    yield from _list_lines("Tools called:", [_calls_line(name, counter) for name, counter in run.calls.items()])
    yield from _output_lines("Printed", out, run.printed.get("stdout", 0))
    yield from _output_lines("Printed as errors", err, run.printed.get("stderr", 0))


def _list_lines(title: str, lines: Iterable[str]) -> Iterator[str]:
    rows: Sequence[str] = list(lines)
    if rows:
        yield title
        yield from (f"- {row}" for row in rows[:MAX_LISTED])
    if len(rows) > MAX_LISTED:
        yield f"- and {len(rows) - MAX_LISTED} more"


def _refusal_line(refusal: RefusedFile, run: FinishedRun) -> str:
    return f"{flatten_text(run.show_place(refusal.name))}: {flatten_text(refusal.reason)}"


def _calls_line(name: str, counter: Counter[str]) -> str:
    failures = [f"{flatten_text(code)} {count}" for code, count in counter.most_common(MAX_LISTED) if code != "ok"]
    text = f"{flatten_text(name)}: {counter.total()} {'call' if counter.total() == 1 else 'calls'}, {counter['ok']} ok"
    return f"{text}; failed: {', '.join(failures)}" if failures else text


def _output_lines(title: str, text: str, chars: int) -> Iterator[str]:
    """Yield the printed output, each line behind a bar, so that none looks like a line of the report."""
    if text.strip():
        yield f"{title} (the last {len(text)} of {chars} characters):" if len(text) < chars else f"{title}:"
        yield from (f"| {line}" for line in text.splitlines())


def flatten_text(text: str) -> str:
    """Return untrusted text as one line of bounded length without unprintable characters."""
    line = " ".join(text[: 4 * _MAX_LINE_CHARS].split())
    line = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)
    return line if len(line) <= _MAX_LINE_CHARS else line[: _MAX_LINE_CHARS - 1] + "…"
