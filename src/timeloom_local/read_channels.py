"""Parses a prompt of edition 2 or 3: decisions in channels, and results between two lines with the call's alias."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from timeloom.core.blocks.tool_traits import find_builtin_traits
from timeloom.core.render.editions import SECOND_EDITION
from timeloom.core.render.foreign_text.fence import PREVIEW_MARKS
from timeloom.core.render.v2.fence import unfence_text
from timeloom_local.prompt_content import ListedSource, PromptCall, PromptContent, PromptFile, describe_missing


def is_second_edition(tail: str) -> bool:
    """Return whether the end of a prompt has the form of edition 2, which edition 3 has too."""
    return bool(_ANNOUNCE.search(tail))


def read_second_edition(content: PromptContent, body: str, tail: str) -> None:
    """Add what the prompt says to the content; unknown blocks are skipped."""
    content.edition = SECOND_EDITION
    for head, lines in _split_blocks(body):
        if channel := _CHANNEL.match(head):
            _read_channel(content, channel["name"], "\n".join([channel["rest"], *lines]))
        elif block := _HEAD.match(head):
            _read_block(content, block, lines)
    _read_tail(content, tail)


_ANNOUNCE: Final = re.compile(r"^\[ANNOUNCE\] ", re.MULTILINE)
_CHANNEL: Final = re.compile(r"<channel:(?P<name>[a-z_]+)>(?P<rest>.*)", re.DOTALL)
_HEAD: Final = re.compile(
    r"\[(?:(?P<call>t[0-9]+\.[0-9]+)(?: (?P<state>fi:.*(?=\](?: empty)?$)|[^\]]*))?"
    r"|USER ATTACHMENT (?P<file>.*?)(?=\] [^ /]+/)"
    r"|EVENT [^ \]]+ ar:(?P<event>t[0-9]+)\.[^\]]*"
    r"|(?P<kind>TURN|PRUNED|USER(?: MESSAGE| FOLLOWUP| STEER)?|NOTICE|APPROVAL)(?: (?P<name>[^\]]*))?"
    r")\](?: (?P<rest>.*))?"
)
_BEGINS: Final = ("[", "<channel:", "</channel:", "HIDDEN")


def _split_blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each line that begins a block with the lines after it; the runtime escapes all other such lines."""
    head, lines = "", list[str]()
    for line in text.split("\n"):
        if line.startswith(_BEGINS) and not line.startswith(PREVIEW_MARKS):
            yield head, lines
            head, lines = line, []
        else:
            lines.append(line)
    yield head, lines


def _read_channel(content: PromptContent, name: str, text: str) -> None:
    text = text.removesuffix(f"</channel:{name}>")
    if name == "action":
        _read_action(content, text)
    elif name == "content" and content.calls:
        content.calls[-1].written = unfence_text(text.removeprefix("\n").removesuffix("\n"))
    elif name == "final_answer":
        content.exchanges.append((content.message, _words(text.split("\n"))))


class _WriteParams(msgspec.Struct, frozen=True):
    content: object = ""


class _CallFields(msgspec.Struct, frozen=True):
    tool_id: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _ActionFields(msgspec.Struct, frozen=True):
    action: str = ""
    tool_call: _CallFields = _CallFields()
    tool_id: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")

    def call(self) -> _CallFields | None:
        """Return the call; from edition 3 on, it stands alone."""
        if self.tool_id:
            return _CallFields(self.tool_id, self.params)
        return self.tool_call if self.action == "call_tool" else None


def _read_action(content: PromptContent, text: str) -> None:
    try:
        parsed = msgspec.json.decode(text, type=_ActionFields)
    except msgspec.MsgspecError:  # very long parameters are cut in the prompt
        parsed = _ActionFields("call_tool")
    if call := parsed.call():
        params = bytes(call.params)
        written = msgspec.json.decode(params, type=_WriteParams).content
        content.calls.append(
            PromptCall(
                tool_id=call.tool_id,
                params=params.decode("utf-8", "replace"),
                written=unfence_text(written) if isinstance(written, str) else "",
            )
        )


def _read_block(content: PromptContent, block: re.Match[str], lines: list[str]) -> None:
    name, rest = block["name"] or "", block["rest"] or ""
    if block["call"]:
        _read_result(content, block["state"] or "", rest, lines)
        return
    if event := block["event"]:
        _enter_turn(content, event)
        return
    match block["kind"]:
        case None:
            content.files[block["file"]] = PromptFile(path=block["file"], attached=True)
        case "TURN" | "PRUNED":
            # The card of earlier rounds of the current turn names no turn.
            if name:
                content.begin_turn(name.partition(" ")[0])
        case "USER" if name:
            _enter_turn(content, name)
            content.add_message("USER", _words(lines))
        case "NOTICE":
            content.add_notice(rest)
        case "APPROVAL":
            if content.calls and rest.startswith("refused"):
                content.calls[-1].failure = "a person refused it"
        case kind:
            content.add_message(kind, _words(lines))


def _enter_turn(content: PromptContent, turn: str) -> None:
    """Begin the turn unless it has begun: from edition 3 on, its message or event names it."""
    if content.turn != turn:
        content.begin_turn(turn)


def _read_result(content: PromptContent, state: str, rest: str, lines: list[str]) -> None:
    if not content.calls or state.startswith("by "):
        return
    call = content.calls[-1]
    how, _, place = state.partition(" ")
    path = state if state.startswith("fi:") else place if place.startswith("fi:") else ""
    call.done = True
    text = _foreign_text(lines, numbered=bool(path) and find_builtin_traits(call.tool_id).numbers_lines)
    if how == "failed":
        call.failure = call.failure or _failure(rest, text or "")
    if path:
        known = "" if rest == "empty" else call.written if rest.endswith(", as written") else text
        _add_artifact(content, call, path, known, lines)
    elif text is not None:
        call.status = text
        call.failure = call.failure or describe_missing(text)


def _add_artifact(content: PromptContent, call: PromptCall, path: str, text: str | None, lines: list[str]) -> None:
    call.paths.append(path)
    if text is not None:
        call.text = f"{call.text}\n{text}".strip("\n")
        # The status names only the paths that were not found.
        call.failure = "" if call.failure == describe_missing(call.status) else call.failure
    is_cut = text is not None and any(line.startswith("[PREVIEW]") for line in lines)
    content.add_file(PromptFile(path=path, text=text, attached=".attachments/" in path, is_cut=is_cut))


def _foreign_text(lines: list[str], *, numbered: bool) -> str | None:
    """Return the text of a result without its escapes; None if there is none."""
    foreign = [line for line in lines if not line.startswith(PREVIEW_MARKS)]
    if not foreign:
        return None
    # Ranges of lines are numbered, and previews that edition 1 recorded have a bar.
    fenced = len(foreign) < len(lines) and all(_FENCED.match(line) for line in foreign)
    return unfence_text("\n".join(foreign), numbered=numbered or fenced)


_FENCED: Final = re.compile(r"[0-9]*\|")
_FAILURE: Final = re.compile(r"[a-z0-9_.]+(?:: (?P<message>.*?))?(?: \(in [^()]*\))?(?: \{.*\})?")


def _failure(rest: str, text: str) -> str:
    """Return the message of a failure; the begin line leaves it out where the text begins with it."""
    found = _FAILURE.fullmatch(rest)
    return (found["message"] if found else rest) or text or "it failed"


def _words(lines: list[str]) -> str:
    return unfence_text("\n".join(line for line in lines if not line.startswith("[READ]"))).strip()


_ROW: Final = re.compile(r"\[S (\d+)\] (.*?) \| (?:.*? \| )?(\S.*)")
_STEP: Final = re.compile(r"(\S) \d+\) (.+)")


def _read_tail(content: PromptContent, tail: str) -> None:
    current = False
    for line in tail.split("\n"):
        if row := _ROW.match(line):
            content.sources.append(ListedSource(int(row[1]), row[2], row[3]))
        elif line.startswith("[OPEN PLAN "):
            current = line.endswith("] current")
        elif current and (step := _STEP.match(line)):
            content.plan.append((step[2], step[1]))
        elif line.startswith("[LAST ROUND]"):
            content.last_round = True
