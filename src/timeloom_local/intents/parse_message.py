"""Parses a message into its clauses and their intents."""

import re
from typing import Final

import msgspec
from msgspec.structs import replace

from timeloom_local.intents import wording
from timeloom_local.intents.find_requests import find_requests, is_weak
from timeloom_local.intents.kinds import (
    CalculateIntent,
    ChangeIntent,
    DeclineIntent,
    FileMention,
    Intent,
    PlanIntent,
    PlanStatusIntent,
    QuestionIntent,
    ReadIntent,
    SearchIntent,
    SmallTalkIntent,
    WriteIntent,
)
from timeloom_local.intents.limits import strip_limits
from timeloom_local.intents.parse_changes import parse_forgotten_item
from timeloom_local.intents.parse_clause import MAX_CLAUSE_CHARS, parse_clause
from timeloom_local.intents.parse_plans import parse_tick
from timeloom_local.intents.questions import parse_recall_to_file
from timeloom_local.intents.references import resolve_in_message
from timeloom_local.intents.typing_errors import Correction, apply_corrections, find_corrections
from timeloom_local.text_rules import MAX_MESSAGE_CHARS, extract_quotations, restore_quotations

MAX_CLAUSES: Final = 8
"""Maximum number of clauses; a longer message is declined."""


class ParsedClause(msgspec.Struct, frozen=True):
    """A clause in the user's words, and its intent."""

    text: str
    intent: Intent


def parse_message(message: str) -> list[ParsedClause]:
    """Return the clauses of a message; at least one. Typing errors are corrected if it is understood only then."""
    hidden, held = extract_quotations(message[:MAX_MESSAGE_CHARS])
    parsed = _parse_hidden(hidden, held, message)
    if not _is_understood(parsed) and (corrections := find_corrections(hidden)):
        parsed = _parse_corrected(hidden, held, message, corrections) or parsed
    return parsed


def _parse_corrected(
    hidden: str, held: list[str], message: str, corrections: list[Correction]
) -> list[ParsedClause] | None:
    """Return the clauses of the corrected message; words that become content stay as they were typed."""
    parsed = _parse_hidden(apply_corrections(hidden, corrections), held, message)
    if not _is_understood(parsed):
        return None
    for one in corrections:
        if not re.search(rf"\b{one.meant}\b", " ".join(repr(clause.intent) for clause in parsed), re.IGNORECASE):
            continue
        fewer = [other for other in corrections if other is not one]
        again = _parse_hidden(apply_corrections(hidden, fewer), held, message)
        if _is_understood(again) and [type(a.intent) for a in again] == [type(b.intent) for b in parsed]:
            corrections, parsed = fewer, again
    return parsed


def _is_understood(parsed: list[ParsedClause]) -> bool:
    return not any(_may_hide_request(one.intent) or _names_file_wrongly(one.intent) for one in parsed)


def _names_file_wrongly(intent: Intent) -> bool:
    """Return whether a file is named by words with a typing error, such as `my fiels`."""
    return isinstance(intent, ReadIntent | ChangeIntent | WriteIntent) and bool(find_corrections(intent.file.words))


def _parse_hidden(hidden: str, held: list[str], message: str) -> list[ParsedClause]:
    hidden = _THANKS.sub("", strip_limits(wording.expand_contractions(hidden)))
    hidden = _MERGED.sub(r" \g<prep>", hidden) if _COMPOSES.match(wording.strip_politeness(hidden)) else hidden
    if forgotten := parse_forgotten_item(wording.strip_politeness(hidden[:MAX_CLAUSE_CHARS]), held):
        return [ParsedClause(message, forgotten)]
    if recalled := parse_recall_to_file(wording.strip_politeness(hidden)):
        return [ParsedClause(message, intent) for intent in recalled]
    if tick := parse_tick(hidden):
        return [ParsedClause(message, tick)]
    clauses = [piece for part in _split(hidden) for piece in _split_at_verbs(part, held)] or [hidden]
    parsed = [_parsed(clause, held) for clause in clauses]
    if len(parsed) > 1:
        whole = _parsed(hidden, held)
        parsed = _without_talk(parsed)
        if any(isinstance(one.intent, DeclineIntent) for one in parsed) and _is_whole(whole.intent):
            parsed = [whole]
    parsed = _with_found_requests(parsed, hidden, held)
    if len(parsed) > MAX_CLAUSES:
        return [ParsedClause(message, DeclineIntent("unclear"))]
    parsed = [ParsedClause(one.text, resolve_in_message(one.intent, hidden, held)) for one in parsed]
    return _with_pronouns(parsed)


def _parsed(clause: str, held: list[str]) -> ParsedClause:
    return ParsedClause(_restored(clause, held), parse_clause(clause, held))


def _restored(clause: str, held: list[str]) -> str:
    return restore_quotations(clause, [f'"{text}"' for text in held])


def _with_found_requests(parsed: list[ParsedClause], hidden: str, held: list[str]) -> list[ParsedClause]:
    """Return the requests that stand among other sentences, if the clauses alone were not understood."""
    if not any(_may_hide_request(one.intent) for one in parsed):
        return parsed
    found = find_requests(hidden, held, lambda part: _split_at_verbs(part, held))
    understood = sum(not _may_hide_request(one.intent) for one in parsed)
    found_understood = sum(not _may_hide_request(intent) for _, intent in found)
    drops_nothing = all(is_weak(one.intent) or not _is_asked(one) for one in parsed if _may_hide_request(one.intent))
    if found and (found_understood > understood or (drops_nothing and found_understood >= understood)):
        return [ParsedClause(_restored(text, held), intent) for text, intent in found]
    return parsed


def _is_asked(one: ParsedClause) -> bool:
    first = one.text.split(maxsplit=1)[0] if one.text.split() else ""
    return (isinstance(one.intent, DeclineIntent) and not first.endswith("ing")) or "?" in one.text


def _may_hide_request(intent: Intent) -> bool:
    """Return whether other words of the message may say more than this clause."""
    return is_weak(intent) or isinstance(intent, DeclineIntent | QuestionIntent)


def _split(hidden: str) -> list[str]:
    found: list[str] = []
    for part in (part.strip(" ,;") for part in _THEN.split(hidden)):
        if found and part and all(char >= "\ue000" for char in part):
            # A quotation alone is the text that the request before it speaks of.
            found[-1] = f"{_LATER.sub('', found[-1].rstrip(' ?.!'))}: {part}"
        elif any(map(_is_content, part)):
            found.append(part)
    return found


def _is_content(char: str) -> bool:
    return char.isalnum() or char >= "\ue000"


def _split_at_verbs(part: str, held: list[str]) -> list[str]:
    """Split at `and` before a verb if each side is a complete request."""
    whole = parse_clause(part, held)
    if isinstance(whole, PlanIntent) and whole.steps:
        return [part]  # steps of a plan begin with verbs, too
    for found in _AND_VERB.finditer(part):
        left, right = part[: found.start()].strip(" ,"), part[found.end() :].strip(" ,")
        if left.count("(") > left.count(")"):
            continue  # what stands in parentheses belongs together
        if _is_whole(parse_clause(left, held)) and _is_request(right, held):
            return [left, *_split_at_verbs(right, held)]
    return [part]


def _is_whole(intent: Intent) -> bool:
    """Return whether an intent lacks nothing."""
    match intent:
        case ChangeIntent(file=file):
            return file != FileMention()
        case WriteIntent() | PlanIntent() | ReadIntent() | SearchIntent() | CalculateIntent() | PlanStatusIntent():
            return True
        case _:
            return False


def _is_request(text: str, held: list[str]) -> bool:
    intent = parse_clause(text, held)
    if isinstance(intent, QuestionIntent):
        return bool(_ASKED.match(text))
    return (
        isinstance(intent, ChangeIntent)
        or _is_whole(intent)
        or (isinstance(intent, DeclineIntent) and intent.reason in ("unsupported", "delete", "web"))
    )


def _without_talk(parsed: list[ParsedClause]) -> list[ParsedClause]:
    """Return the clauses without greetings and statements beside a request; all of them if there is no request."""
    return [one for one in parsed if not isinstance(one.intent, SmallTalkIntent)] or parsed[-1:]


def _with_pronouns(parsed: list[ParsedClause]) -> list[ParsedClause]:
    """Replace `it` in a clause by the file of the clause before; a question after it is about that file, too."""
    last: FileMention | None = None
    done: list[ParsedClause] = []
    for one in parsed:
        intent = one.intent
        if (
            isinstance(intent, ReadIntent)
            and intent.file.is_pronoun
            and done
            and isinstance(done[-1].intent, CalculateIntent)
        ):
            continue  # the result of a calculation is shown anyway
        if (
            isinstance(intent, ChangeIntent | ReadIntent)
            and last
            and (intent.file.is_pronoun or intent.file == FileMention())
        ):
            intent = replace(intent, file=last)
        if isinstance(intent, QuestionIntent) and last:
            intent = ReadIntent(file=last, kind="question", words=intent.question)
        if isinstance(intent, ChangeIntent | ReadIntent | WriteIntent) and (intent.file.names or intent.file.words):
            last = intent.file
        done.append(ParsedClause(one.text, intent))
    return done


_VERB: Final = "|".join(
    sorted(
        wording.VERBS
        - {
            "list",
            "note",
            "text",
            "mail",
            "book",
            "message",
            "cross",
            "plan",
            "set",
            "post",
            "order",
            "average",
            "check",
            "look",
            "run",
            "count",
            "call",
            "keep",
            "drop",
            "start",
            "use",
            "play",
            "cat",
            "share",
        }
    )
)
_THEN: Final = re.compile(
    r"(?:[.;,!?]\s{0,3}|\s)(?:and\s)?(?:then|after that|afterwards|and finally|finally|and next)(?:,)?\s(?!to\b)"
    rf"|\?\s{{1,3}}|(?<!\d)[.!;]\s{{1,3}}(?=(?:(?:please|now|then|also|and|can you|could you"
    rf"|next)\s){{0,2}}(?:{_VERB}|what|what's|which|who|when|where|how)\b)",
    re.IGNORECASE,
)
_AND_VERB: Final = re.compile(
    rf",?\s+and\s+(?:also\s+|please\s+|after that\s+)?(?=(?:{_VERB}|let me|give me|check|set|run|count"
    rf"|call|text|list|mail|book)\b)|,\s+(?:please\s+)?(?=(?:{_VERB})\b)",
    re.IGNORECASE,
)
_THANKS: Final = re.compile(
    r"(?<=[\ue000-\uf8ff])[\s.,!]*(?:many |kind |with )?(?:thanks|thank you|thx|cheers)\b[^\ue000-\uf8ff?:]{0,60}$",
    re.IGNORECASE,
)
"""Thanks after a quotation, which are no part of the request."""
_ASKED: Final = re.compile(r"(?:tell|let|show) (?:me|us)\b", re.IGNORECASE)
_LATER: Final = re.compile(r"\s(?:for later|for me|please)$", re.IGNORECASE)
_COMPOSES: Final = re.compile(r"(?:write|draft|compose|create|make|generate|produce|prepare)\b", re.IGNORECASE)
_MERGED: Final = re.compile(
    r"[,.?!;]?\s+(?:and\s+)?(?:then\s+)?(?:please\s+)?(?:save|put|store|write|keep|place)\s(?:it|this"
    r"|that|them|the (?:poem|text|list|story|letter|result|file))\s(?P<prep>in|into|to|as|under"
    r"|inside)\b",
    re.IGNORECASE,
)
