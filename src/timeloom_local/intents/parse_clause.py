"""Parses one clause of a message into an intent."""

import re
from typing import Final

from timeloom_local.intents import wording
from timeloom_local.intents.file_mentions import find_mention, mentions_file_kind
from timeloom_local.intents.file_questions import parse_about_files, parse_search
from timeloom_local.intents.kinds import (
    DeclineIntent,
    HelpIntent,
    Intent,
    QuestionIntent,
    SmallTalkIntent,
    SmallTalkKind,
)
from timeloom_local.intents.parse_changes import (
    parse_add,
    parse_change_request,
    parse_file_first,
    parse_instead,
    parse_note,
    parse_remove,
    parse_wish,
)
from timeloom_local.intents.parse_corrections import parse_correction
from timeloom_local.intents.parse_plans import parse_plan, parse_plan_status
from timeloom_local.intents.parse_reads import parse_read
from timeloom_local.intents.parse_writes import parse_overwrite, parse_write
from timeloom_local.intents.prose_calculations import parse_followup
from timeloom_local.intents.questions import (
    parse_about_model,
    parse_any_calculation,
    parse_question,
    parse_recall,
)
from timeloom_local.text_rules import find_file_names

MAX_CLAUSE_CHARS: Final = 600
"""Maximum length of a clause without its quotations; a longer one is declined."""


def parse_clause(clause: str, held: list[str]) -> Intent:
    """Return the intent of a clause, whose quotations are replaced by placeholders for `held`."""
    if len(clause) > MAX_CLAUSE_CHARS:
        return DeclineIntent("unclear")
    if small := _parse_small_talk(clause):
        return small
    text = _DISCARD.sub("delete ", wording.correct_keywords(wording.strip_politeness(clause)))
    if found := _parse_refusal(text, held) or _parse_talk(text) or parse_plan(text, held):
        return found
    verb = text.split(maxsplit=1)[0].lower().strip(",:") if text.split() else ""
    if found := parse_any_calculation(text, held) or parse_followup(text) or parse_about_files(text, held):
        return found
    if found := (parse_correction(text, held) if verb not in wording.VERBS else None) or parse_recall(text):
        return found
    if found := _parse_by_verb(verb, text, held):
        return found
    if verb in wording.QUESTION or text.endswith("?"):
        return parse_question(text, held)
    return _parse_rest(text, held)


def is_refused(text: str) -> bool:
    """Return whether a text begins with a condition or a prohibition, so that no part of it is carried out."""
    plain = wording.strip_politeness(text)
    return bool(_CONDITION.match(plain) or _PROHIBITION.match(plain))


def _parse_small_talk(clause: str) -> Intent | None:
    plain = clause.strip(" .!?,;:)").lower().replace("’", "'")
    for pattern, kind in _SMALL_TALK:
        if pattern.fullmatch(plain):
            return SmallTalkIntent(kind)
    if _ABILITY.fullmatch(clause.strip()):
        return HelpIntent()
    return SmallTalkIntent("statement") if _TOLD.match(clause.strip()) and not find_file_names(clause) else None


def _parse_refusal(text: str, held: list[str]) -> Intent | None:
    """Parse what is declined by its form: nothing, another language, a prohibition or a condition."""
    if not any(map(str.isalnum, text)) and not held:
        return DeclineIntent("unclear")
    if wording.is_foreign(text):
        return DeclineIntent("language")
    if _PROHIBITION.match(text):
        return SmallTalkIntent("nothing")
    if _OUTSIDE.search(text):
        return DeclineIntent("outside")
    return DeclineIntent("condition") if _CONDITION.match(text) else None


def _parse_talk(text: str) -> Intent | None:
    if found := parse_about_model(text.strip(" ?.!")):
        return found
    if _STATEMENT_VERB.match(text) and not find_file_names(text):
        return SmallTalkIntent("statement")
    return parse_plan_status(text)


def _parse_by_verb(verb: str, text: str, held: list[str]) -> Intent | None:
    """Parse a request by its first word; None if it has no verb that is known."""
    told = _TELL.match(text)
    if told and not _TELL_OTHER.match(text):
        return parse_clause_question(text[told.end() :], held)
    if verb in ("overwrite", "replace", "rewrite", "make", "change", "set", "update") and (
        found := parse_overwrite(text, held)
    ):
        return found
    if verb in wording.CHANGE and (found := parse_file_first(text, held)):
        return found
    for verbs, parse in _PARSERS:
        if verb in verbs and (found := parse(text, held)):
            return found
    return _decline_verb(verb, text)


def parse_clause_question(text: str, held: list[str]) -> Intent:
    """Parse a question that follows `tell me`."""
    about = parse_about_model(text.strip(" ?.!")) or parse_any_calculation(text, held)
    return about or parse_about_files(text, held) or parse_recall(text) or parse_question(text, held)


def _decline_verb(verb: str, text: str) -> Intent | None:
    """Return why a request with a known verb is declined."""
    if verb in ("delete", "remove", "erase", "clear", "empty", "wipe", "destroy"):
        return DeclineIntent("delete")
    if verb in ("explain", "describe", "tell", "quote", "cite"):
        return QuestionIntent(text)
    if verb in ("teach", "recommend", "suggest", "compare"):
        return DeclineIntent("facts")
    if verb in wording.CHANGE and find_file_names(text):
        return DeclineIntent("edit")
    if verb in wording.QUESTION:
        return None
    return DeclineIntent("unsupported") if verb in wording.VERBS else None


def _parse_rest(text: str, held: list[str]) -> Intent:
    """Parse a clause without a known verb."""
    if found := parse_file_first(text, held):
        return found
    if found := parse_wish(text, held):
        return found
    if new := _NEW_FILE.match(text):
        return parse_write(f"create {text[new.end(1) :]}", held) or DeclineIntent("unclear")
    mention = find_mention(text)
    if mention and mention.names:
        return DeclineIntent("what", mention.names[0])
    if mention and mentions_file_kind(mention.words):
        return DeclineIntent("what", mention.words)
    if _STATEMENT.match(text) or (_SAYS.search(text) and not text.rstrip().endswith("?")):
        return SmallTalkIntent("statement")
    return DeclineIntent("unclear")


_SMALL_TALK: Final[tuple[tuple[re.Pattern[str], SmallTalkKind], ...]] = (
    (
        re.compile(
            r"(?:hi|hello|hey|yo|hiya|howdy|greetings|good (?:morning|afternoon|evening|day|night)"
            r"|hello (?:there|world)|hi (?:there|everyone)|hey there|anyone there|test(?:ing)?(?: 123)?"
            r"|ping)(?:[,! ]+(?:there|timeloom|bot|assistant|you|friend|again))?"
        ),
        "hello",
    ),
    (
        re.compile(
            r"(?:(?:ok|okay|great|cool|nice|perfect|awesome|wonderful|good|super|excellent|brilliant|got it"
            r"|alright|well done|good job|thanks|thank you|thx|ty|cheers|many thanks|much appreciated"
            r"|very much|so much|a lot|that's all|that is all|that was all|for your help|for the help"
            r"|you're great|lovely)[\s,.!-]*)+"
        ),
        "thanks",
    ),
    (
        re.compile(
            r"(?:good ?bye|bye(?: bye)?|see you(?: later)?|ciao|farewell|quit|exit|stop|cancel|never ?mind"
            r"|forget it)"
        ),
        "bye",
    ),
    (
        re.compile(
            r"(?:yes|yeah|yep|yup|sure|no|nope|nah|maybe|do it|go ahead|go on|continue|correct|exactly|right"
            r"|y|n)(?:[, ]+(?:please|thanks|do it|sure|go ahead))?"
        ),
        "yes",
    ),
    (re.compile(r"you(?:'re| are) .{1,200}"), "self"),
)


_ABILITY: Final = re.compile(
    r"(?:can|could|do|are) you (?:also |able to |really )*(?:run|write|read|search|change|edit|make"
    r"|open|create|calculate|do|see|use|handle|add|plan)(?: and \w+)?"
    r"(?: my| some| any| a)? ?(?:code|files?|programs?|plans?|maths?|arithmetic|attachments?|things"
    r"|calculations?|python|documents?|lists?|sums)?\??",
    re.IGNORECASE,
)


_DISCARD: Final = re.compile(
    r"^(?:get rid of|throw (?:out|away)|scrap|trash|discard|ditch|dump|clear out|nuke|wipe out)\s", re.IGNORECASE
)
_PROHIBITION: Final = re.compile(
    r"(?:don't|do not|dont|never|please don't|stop|no need to|without)\b(?! you\b| i\b| we\b| worry\b)", re.IGNORECASE
)


_CONDITION: Final = re.compile(
    r"(?:if|unless|whenever|every time|as soon as|in case|once|while|until|every (?:day|hour|morning"
    r"|week|monday)|tomorrow at|at \d)\b",
    re.IGNORECASE,
)


_OUTSIDE: Final = re.compile(r"\.\./|(?:^|\s)[~/]/?\w|\b[A-Za-z]:\\")


_STATEMENT_VERB: Final = re.compile(
    r"(?:remember|keep in mind|note|fyi|for your information|just so you know|don't forget"
    r"|bear in mind|know)(?:[,:]| that| this| my| i| the| we| our)\b",
    re.IGNORECASE,
)


_TOLD: Final = re.compile(
    r"(?:ok |hey |oh |and |btw )*(?:just )?(?:so (?:that )?(?:you|u) know|fyi|for your (?:information|info)"
    r"|heads up|just (?:letting you know|saying)|"
    r"for the record|in case you (?:wonder|ask|need it))\b",
    re.IGNORECASE,
)


_SAYS: Final = re.compile(
    r"^(?:[\w',-]+ ){1,8}?(?:is|are|was|were|has|have|had|will|won't|said|says|wants|told|thinks|can|can't|likes"
    r"|moved|changed|cancelled|called|costs|"
    r"starts|lives|comes|goes|went|got|needs|broke|arrived|left|finished) [\w',-]+",
    re.IGNORECASE,
)


_STATEMENT: Final = re.compile(
    r"(?:i|i'm|im|i've|i'll|i'd|my|we|we're|we've|our|the|he|she|he's|she's|it|it's|its|there|this"
    r"|that|these|those|they|they're|today|yesterday|tomorrow|someone"
    r"|people|remember|fyi|a|an|[A-Z][\w-]+(?:'s)? (?:is|was|has|likes|lives|works|will|and|are|wants))\b",
    re.IGNORECASE,
)


_TELL: Final = re.compile(
    r"(?:tell|show|let|give|inform|answer)(?: me| us)?(?: know)?[\s,:]+(?=(?:what|what's|which|who"
    r"|who's|when|where|how|if|whether|why)\b)",
    re.IGNORECASE,
)


_TELL_OTHER: Final = re.compile(r"(?:tell|show|let|give) (?:me |us )?(?:know )?(?:how to|if|whether)\b", re.IGNORECASE)


_NEW_FILE: Final = re.compile(
    r"((?:(?:i|we)(?:'d| would)? (?:need|want|like) )?)(?:a |another )?new (?:text )?(?:file|document|note)\b",
    re.IGNORECASE,
)


_PARSERS: Final = (
    (frozenset({"note", "jot", "record"}), parse_note),
    (wording.ADD, parse_add),
    (frozenset({"make", "use"}), parse_instead),
    (wording.WRITE | {"put"}, parse_write),
    (wording.CHANGE, parse_change_request),
    (wording.REMOVE, parse_remove),
    (wording.SEARCH | {"rg", "scan", "hunt"}, parse_search),
    (wording.READ | {"give", "let", "pull", "bring", "have", "go", "get", "sum"}, parse_read),
)
"""The parsers of each kind of verb, in the order in which they are tried."""
