"""Parses questions: about the conversation, about the model, and all others; and calculations."""

import re
from collections.abc import Sequence
from typing import Final

from timeloom_local.intents.calculations import TooLargeCalculation, parse_calculation, parse_file_calculation
from timeloom_local.intents.file_mentions import find_mention, is_attachment_phrase
from timeloom_local.intents.file_questions import parse_about_files
from timeloom_local.intents.kinds import (
    CalculateIntent,
    DeclineIntent,
    FileMention,
    HelpIntent,
    Intent,
    QuestionIntent,
    ReadIntent,
    RecallIntent,
    RecallKind,
    SmallTalkIntent,
    WriteIntent,
)
from timeloom_local.text_rules import find_file_names, restore_quotations


def parse_about_model(text: str) -> Intent | None:
    """Parse a question about the model itself."""
    if _HELP.fullmatch(text):
        return HelpIntent()
    return SmallTalkIntent("self") if _SELF.fullmatch(text) else None


def parse_any_calculation(text: str, held: list[str]) -> Intent | None:
    """Parse a calculation, also one with the numbers, words or lines of a file."""
    plain = restore_quotations(text, [f'"{quotation}"' for quotation in held])
    found = parse_calculation(plain)
    if isinstance(found, TooLargeCalculation):
        return DeclineIntent("too_large")
    if found:
        return CalculateIntent(program=found)
    for at in _FILE_PREPOSITION.finditer(text):
        tail, with_program = _split_program(text[at.end() :])
        mention = find_mention(tail)
        program = parse_file_calculation(f"{text[: at.start()]} {with_program}") if mention else None
        if mention and program:
            return CalculateIntent(program=program, file=mention)
    return None


def parse_recall(text: str) -> Intent | None:
    """Parse a question about what was said in the conversation."""
    if found := _CHAT_SEARCH.fullmatch(text.strip(" ?.!")):
        return RecallIntent("topic", _ASKED_WORDS.sub("", found[1] or found[2]), is_explicit=True)
    for pattern, kind in _RECALL_PLACES:
        if pattern.fullmatch(text):
            return RecallIntent(kind)
    if _RECALL.search(text):
        return RecallIntent("topic", text, is_explicit=True)
    if _PERSONAL.match(text) and not find_file_names(text) and not is_attachment_phrase(text):
        return RecallIntent("topic", text)
    return None


def parse_recall_to_file(text: str) -> list[Intent]:
    """Parse `write what I told you about A to FILE`: what was said is looked for, then written."""
    found = _RECALL_TO_FILE.fullmatch(text.strip(" .?!"))
    mention = find_mention(found[2]) if found else None
    if not found or not mention or not mention.names:
        return []
    return [
        RecallIntent("topic", found[1], is_explicit=True),
        WriteIntent(file=mention, uses_result=True, appends=True),
    ]


def parse_question(text: str, held: list[str]) -> Intent:
    """Parse a question; one that no rule knows is looked up in attachments, files and the conversation."""
    plain = text.rstrip(" ?.!")
    shown = restore_quotations(text, [f'"{quotation}"' for quotation in held])
    if found := parse_about_files(text, held):
        return found
    if names := find_file_names(plain):
        return ReadIntent(file=FileMention(names=tuple(names)), kind="question", words=shown)
    if is_attachment_phrase(plain):
        return ReadIntent(file=FileMention(is_attachment=True), kind="question", words=shown)
    return QuestionIntent(shown)


_HELP: Final = re.compile(
    r"(?:help(?: me)?|what (?:else )?can (?:you|i|u) (?:do|ask|ask you|ask you to do|ask for|say"
    r"|tell you)(?: for me| here)?|what (?:are|is) (?:you able to do|your "
    r"(?:abilities|capabilities|features|skills|limits|functions?))|how (?:can|do"
    r"|could) (?:you help(?: me)?|i use (?:you|this))"
    r"|which (?:tools|features) do you have|what (?:tools|features) do you have|how does this work"
    r"|what do you do|what are you (?:good at|for)"
    r"|tell me what you can do|show me what you can do|list your (?:abilities|features|skills)"
    r"|commands|menu|options|what should i (?:say|try|ask)"
    r"|how (?:do|can|could) i (?:get|set|use|choose|pick|switch to|connect|install) (?:a |an "
    r"|the )?(?:better|real|other|another|different"
    r"|larger|bigger|smarter|proper|good)? ?(?:model|llm|ai|claude|gpt|openai|anthropic)(?: model)?.{0,40}"
    r"|what can (?:this|it) do|getting started|how do i start|give me (?:some )?examples?)[\s?.!]*",
    re.IGNORECASE,
)
_SELF: Final = re.compile(
    r"(?:who|what) (?:are|r) (?:you|u)(?: exactly| really)?|what(?:'s| is) your name|(?:what"
    r"|which) (?:model|llm|ai) (?:are|is) (?:you|this)"
    r"|are you (?:a |an )?(?:human|real|robot|bot|ai|person|llm|model|chatgpt|gpt|claude|there|ok"
    r"|okay|smart|intelligent|conscious|alive|sure|serious).{0,40}"
    r"|how are (?:you|things)(?: doing)?(?: today)?|how's it going|how do you do|what's up"
    r"|who (?:made|built|created|wrote|trained) you"
    r"|what (?:model|llm) (?:do you use|is running|am i talking to)|do you have (?:feelings"
    r"|a name).{0,20}|introduce yourself",
    re.IGNORECASE,
)
_FILE_PREPOSITION: Final = re.compile(
    r"\b(?:in|of|on|from|does|for)\s+|\s(?=[\w./-]+\.[A-Za-z]\w{0,4}\b)", re.IGNORECASE
)


def _split_program(tail: str) -> tuple[str, str]:
    """Return the words before and after `with a program`."""
    found = re.search(r"[\s,]+(?:with|using|have|has|by running|and|contain|hold)\b.*$", tail, re.IGNORECASE)
    if not found or find_file_names(found[0]):
        return tail, ""
    return tail[: found.start()], re.sub(r"^[\s,]+(?:have|has|contain|hold)\b", "", found[0], flags=re.IGNORECASE)


def _compile_places(forms: Sequence[tuple[str, RecallKind]]) -> tuple[tuple[re.Pattern[str], RecallKind], ...]:
    return tuple((re.compile(rf"(?:{pattern})[\s?.!]*", re.IGNORECASE), kind) for pattern, kind in forms)


_RECALL_PLACES: Final = _compile_places(
    (
        (
            (
                r"what (?:was|is) (?:the|my) (?:very )?first (?:thing|message|question"
                r"|request)(?: (?:that )?i (?:said|asked|wrote|sent|told you).{0,40})?"
                r"|what did i (?:say|ask|write|tell you|want) (?:you )?(?:at )?(?:the )?(?:very )?(?:first"
                r"|beginning|start).{0,40}"
                r"|repeat my first (?:message|question).{0,20}|how did (?:i|we) (?:start|begin).{0,40}"
            ),
            "first",
        ),
        (
            (
                r"what (?:was|is) (?:the|my) (?:last|previous) (?:thing|message|question"
                r"|request)(?: (?:that )?i (?:said|asked|wrote|sent|told you).{0,40})?"
                r"|what did i (?:just )?(?:say|ask|write|tell you)(?: you)?"
                r"(?: (?:just now|before|last|before that|earlier))?"
                r"|repeat (?:what i (?:just )?said|my (?:last|previous) (?:message|question))"
                r"|what were my (?:last|previous) words"
            ),
            "last",
        ),
        (
            (
                r"(?:can you )?(?:summari[sz]e|recap|repeat|list) (?:our|this|the) (?:conversation|chat"
                r"|discussion)(?: so far)?"
                r"|what (?:have|did) (?:i|we) (?:said|say|asked|ask|talked about|talk about|discussed?|done"
                r"|told you|tell you)(?: you)?(?: (?:so far|until now|today|earlier|before))?"
                r"|what (?:was|is) (?:this|our) conversation about|(?:show|list"
                r"|give)(?: me)? (?:all )?(?:of )?(?:my|the) (?:earlier |previous |last )?(?:messages"
                r"|questions|requests)(?: so far)?"
            ),
            "all",
        ),
        (
            (
                r"what (?:did|have) you (?:just )?(?:say|said|answer|answered|tell me|told me|reply|do|done"
                r"|write|wrote)(?: (?:before|last|earlier|just now|so far))?"
                r"|repeat (?:that|your (?:last |previous )?(?:answer|reply|message))|say that again"
                r"|what was your (?:last |previous )?(?:answer|reply)|come again|pardon"
            ),
            "answer",
        ),
    )
)
_CHAT: Final = (
    r"(?:our|this|the|my)?\s?(?:earlier |previous |old |past |whole )?(?:chat|conversation|messages"
    r"|chat history|history|discussion|talk)"
)
_CHAT_SEARCH: Final = re.compile(
    rf"(?:search|look|scan|check|go|find|grep)\b(?: back| through| thru| in| over| at)*\s{_CHAT}(?: history"
    rf"| so far)?(?: for| and (?:find|tell me|see|look for))\s(.{{1,200}})"
    rf"|(?:search for|search|look for|look up|find)\s(.{{1,120}}?) (?:in|from|somewhere in"
    rf"|within)\s{_CHAT}(?: history| so far| above)?",
    re.IGNORECASE,
)
_ASKED_WORDS: Final = re.compile(
    r"^(?:(?:what|where|when|anything|something|everything|the (?:message|bit|part|place|thing)s?"
    r"|where)\s)*(?:that )?(?:(?:i|we)\s(?:\w+\s)?(?:wrote|said|told you|mentioned|talked|typed)\s)?"
    r"(?:about|regarding|on|of)?\s?(?:the word )?",
    re.IGNORECASE,
)
_RECALL_TO_FILE: Final = re.compile(
    r"(?:write|save|put|add|note|store|copy|append|jot)(?: down)? (?:what|the (?:thing|bit|part|message)s?(?: that)?)"
    r" (?:i|we) (?:\w+ )?(?:said|told you|wrote|mentioned|talked|gave you)(?: earlier| before)? (?:about|on|regarding)"
    r" (.{1,80}?) (?:in|into|to|onto|on) (.{1,80})",
    re.IGNORECASE,
)
_RECALL: Final = re.compile(
    r"\bdid (?:i|we) (?:\w+ ){0,2}?(?:say|tell|mention|ask|write|talk|discuss|want|decide|choose|pick"
    r"|call|give|name|need|plan|agree)\b"
    r"|\b(?:i|we) (?:\w+ )?(?:said|told|mentioned|asked|talked|wrote|gave you)\b|\b(?:do|can"
    r"|did) you (?:still )?(?:remember|recall)\b"
    r"|^remind me,? (?:what|who|when|where|which|how|of|about|why)\b|\bhave i (?:\w+ )?(?:said|told"
    r"|mentioned|asked)\b|\bearlier (?:in|today)\b"
    r"|^(?:what|who|when|where|which) (?:was|were) (?:that|the one) i\b|\bwhat do you know about me\b",
    re.IGNORECASE,
)
_PERSONAL: Final = re.compile(
    r"^(?:(?:so|and) )?(?:what|what's|who|who's|when|when's|where|where's|which|how|how's|is|are|am"
    r"|do|does|was|were|did)\b.{0,60}?\b(?:my|i|our|we|me)\b",
    re.IGNORECASE,
)
