"""Builds the result of a finished program: its outcome and a report in Markdown for the model."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, assert_never

import msgspec

from timeloom.core.blocks import ToolError, registered_error
from timeloom.ports.sandbox import MIB, Limits, Ran
from timeloom.ports.tool import Artifact, Outcome, ToolNotice
from timeloom.tools.exec.collect_outputs import Produced
from timeloom.tools.exec.inputs import Inputs
from timeloom.tools.exec.output_folder import Refusal

TAIL_CHARS: Final = 4_000
"""Most characters of printed output that the report repeats, taken from its end."""

MAX_LISTED: Final = 20
"""Most lines of one list. Names come from a program, so their number is unbounded."""

_WORDS_CHARS: Final = 300


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
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


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known about a finished program."""

    ran: Ran
    limits: Limits
    max_timeout_s: float
    inputs: Inputs
    produced: Produced
    calls: Mapping[str, Counter[str]]
    printed: Mapping[str, int]
    """Number of characters printed on each stream; the sandbox keeps only the last ones."""


def envelope(course: Course) -> Envelope:
    """Return the result of the program."""
    error = _error(course)
    out, err = course.ran.stdout_tail[-TAIL_CHARS:], course.ran.stderr_tail[-TAIL_CHARS:]
    return Envelope(
        ok=error is None,
        artifacts=tuple(course.produced.artifacts),
        error=error,
        report_text="\n".join(_lines(course, error, out, err)),
        user_out_tail=out,
        runtime_err_tail=err,
    )


def _error(course: Course) -> ToolError | None:
    """Return the error of the program; if it has none, the error of its contract."""
    ran, missing = course.ran, [one.name for one in course.produced.errors]
    details: dict[str, str | int | float | bool | None] = {}
    if missing:
        details["missing_artifact"] = ", ".join(missing[:MAX_LISTED])
    if ran.ending != "exited":
        details |= {"ending": ran.ending, "exit_code": ran.exit_code}
        code = "execution_failed" if ran.ending == "killed" else "execution_limit"
        return msgspec.structs.replace(registered_error(code, _over(course)), details=details)
    if ran.exit_code:
        details["exit_code"] = ran.exit_code
        return msgspec.structs.replace(registered_error("execution_failed", _last_words(ran)), details=details)
    if missing:
        return msgspec.structs.replace(registered_error("missing_artifact", _missing(course)), details=details)
    return None


def _missing(course: Course) -> str:
    names = [one.name for one in course.produced.errors]
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"Missing output files: {', '.join(names[:MAX_LISTED])}{more}"


def _last_words(ran: Ran) -> str:
    """Return the last line on stderr, which names the error in a traceback."""
    lines = [line for line in ran.stderr_tail.splitlines() if line.strip()]
    said = flat(lines[-1]) if lines else f"the program ended with exit code {ran.exit_code}"
    return f"{said} ({flat(ran.detail)})" if ran.detail else said


def _over(course: Course) -> str:
    """Return which limit ended the program, and how to stay below it."""
    ran, limits = course.ran, course.limits
    match ran.ending:
        case "timeout":
            said = f"the program ran longer than {limits.wall_s:g} s; do less at once, or give a larger timeout_s"
            said += f" (up to {course.max_timeout_s:g})"
        case "cpu":
            said = f"the program used more than {limits.cpu_s:g} s of processor time; do less, or in a quicker way"
        case "memory":
            said = f"the program used more than {limits.memory_bytes // MIB} MiB of memory; work on parts of the data"
        case "output":
            said = f"the program printed more than {limits.output_bytes // 1024} KiB; write long output to a file"
        case "growth":
            most = f"{limits.growth_bytes // MIB} MiB or {limits.growth_files} files"
            said = f"the program wrote more than {most}; keep only what is needed"
        case "killed" | "exited":
            said = f"the program was ended by a signal (exit code {ran.exit_code})"
        case _:
            assert_never(ran.ending)
    return f"{said} ({flat(ran.detail)})" if ran.detail and ran.ending != "timeout" else said


def _lines(course: Course, error: ToolError | None, out: str, err: str) -> Iterator[str]:
    produced, inputs = course.produced, course.inputs
    if error:
        code = "execution_failed" if error.code == "missing_artifact" else error.code
        yield f"Runtime error: {code} — {error.message}"
    elif not produced.artifacts:
        yield "The program ended without an error."
    yield from _listed("File errors:", [_told(one) for one in produced.errors])
    yield from _listed("Succeeded:", produced.declared)
    yield from _listed("Kept as internal files, because the contract does not name them:", produced.extra)
    yield from _listed(
        "Moved, because files belong into the current turn:",
        [f"{flat(one.place)} is now {one.target}" for one in produced.moved],
    )
    yield from _listed("Not kept:", [_told(one) for one in produced.refused])
    if not produced.complete:
        yield "Not kept: more files than are looked at."
    yield from _listed("Named in the code and not found:", inputs.missing)
    yield from _listed("Not given to the program, because it would be too much:", map(flat, inputs.left_out))
    yield from _listed("Tools called:", [_called(name, counter) for name, counter in course.calls.items()])
    yield from _printed("Printed", out, course.printed.get("stdout", 0))
    yield from _printed("Printed as errors", err, course.printed.get("stderr", 0))


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    rows: Sequence[str] = list(lines)
    if rows:
        yield title
        yield from (f"- {row}" for row in rows[:MAX_LISTED])
    if len(rows) > MAX_LISTED:
        yield f"- and {len(rows) - MAX_LISTED} more"


def _told(refusal: Refusal) -> str:
    return f"{flat(refusal.name)}: {flat(refusal.reason)}"


def _called(name: str, counter: Counter[str]) -> str:
    failures = [f"{flat(code)} {count}" for code, count in counter.most_common(MAX_LISTED) if code != "ok"]
    said = f"{flat(name)}: {counter.total()} {'call' if counter.total() == 1 else 'calls'}, {counter['ok']} ok"
    return f"{said}; failed: {', '.join(failures)}" if failures else said


def _printed(title: str, text: str, chars: int) -> Iterator[str]:
    """Yield the printed output, each line behind a bar, so that none looks like a line of the report."""
    if text.strip():
        yield f"{title} (the last {len(text)} of {chars} characters):" if len(text) < chars else f"{title}:"
        yield from (f"| {line}" for line in text.splitlines())


def flat(text: str) -> str:
    """Return untrusted text as one line of bounded length without unprintable characters."""
    line = " ".join(text[: 4 * _WORDS_CHARS].split())
    line = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)
    return line if len(line) <= _WORDS_CHARS else line[: _WORDS_CHARS - 1] + "…"
