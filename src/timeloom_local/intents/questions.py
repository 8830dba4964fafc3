"""Parses questions: about files, about the conversation, about the model, and all others."""

import re
from collections.abc import Sequence
from typing import Final

from timeloom_local.intents.calculations import TooLargeCalculation, parse_calculation, parse_file_calculation
from timeloom_local.intents.file_mentions import find_mention, is_attachment_phrase
from timeloom_local.intents.kinds import (
    CalculateIntent,
    DeclineIntent,
    FileMention,
    HelpIntent,
    Intent,
    PlanStatusIntent,
    QuestionIntent,
    ReadIntent,
    RecallIntent,
    RecallKind,
    SearchIntent,
    SmallTalkIntent,
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
    for pattern, kind in _RECALL_PLACES:
        if pattern.fullmatch(text):
            return RecallIntent(kind)
    if _RECALL.search(text):
        return RecallIntent("topic", text, is_explicit=True)
    if _PERSONAL.match(text) and not find_file_names(text) and not is_attachment_phrase(text):
        return RecallIntent("topic", text)
    return None


def parse_about_files(text: str, held: list[str]) -> Intent | None:
    """Parse a question for the names, the text or the words of files."""
    plain = text.rstrip(" ?.!")
    for parse in (_parse_listing, _parse_file_search, _parse_file_question):
        if found := parse(plain, held):
            return found
    return None


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


def parse_search(text: str, held: list[str]) -> Intent | None:
    """Parse a request to search the files, such as `search my files for A`."""
    plain = text.rstrip(" ?.!")
    if _WEB.search(plain):
        return DeclineIntent("web")
    if (one := _SEARCH_ONE.fullmatch(plain)) and (mention := find_mention(one[1])) and not _ALL_FILES.search(one[1]):
        return ReadIntent(file=mention, kind="contains", words=_search_words(one[2], held))
    if found := _parse_listing(plain, held) or _parse_file_search(plain, held):
        return found
    for pattern in _SEARCHES:
        if found := pattern.fullmatch(plain):
            words = _search_words(found[1], held)
            mention = find_mention(found[2]) if found.re.groups > 1 and found[2] else None
            if mention and (mention.names or mention.words) and not _ALL_FILES.search(found[2]):
                return ReadIntent(file=mention, kind="contains", words=words)
            return SearchIntent(words=words) if words else None
    return None


def parse_plan_status(text: str) -> Intent | None:
    """Parse a request about the open plan."""
    if first := _NAMED_STEP_DONE.search(text):
        return PlanStatusIntent("done", _ORDINALS.index((first[1] or first[2]).lower()) + 1)
    if done := _STEP_DONE.search(text):
        return PlanStatusIntent("done", int(done[1] or done[2]))
    if _CLOSES.fullmatch(text):
        return PlanStatusIntent("close")
    return PlanStatusIntent("show") if _SHOWS_PLAN.fullmatch(text) else None


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
_RECALL: Final = re.compile(
    r"\bdid (?:i|we) (?:\w+ ){0,2}?(?:say|tell|mention|ask|write|talk|discuss|want|decide|choose|pick"
    r"|call|give|name|need|plan|agree)\b"
    r"|\b(?:i|we) (?:\w+ )?(?:said|told|mentioned|asked|talked|wrote|gave you)\b|\b(?:do|can"
    r"|did) you (?:still )?(?:remember|recall)\b"
    r"|^remind me (?:what|who|when|where|which|how|of|about|why)\b|\bhave i (?:\w+ )?(?:said|told"
    r"|mentioned|asked)\b|\bearlier (?:in|today)\b"
    r"|^(?:what|who|when|where|which) (?:was|were) (?:that|the one) i\b|\bwhat do you know about me\b",
    re.IGNORECASE,
)
_PERSONAL: Final = re.compile(
    r"^(?:(?:so|and) )?(?:what|what's|who|who's|when|when's|where|where's|which|how|how's|is|are|am"
    r"|do|does|was|were|did)\b.{0,60}?\b(?:my|i|our|we|me)\b",
    re.IGNORECASE,
)
_THING: Final = r"(.{1,120}?)"
_LISTING: Final = re.compile(
    r"(?:show|list|display|print|view|see|give)?(?: me)?\s?(?:what|which|how many|all|the|my"
    r"|a list of)?(?: all| of| the| my| our| your)*\s?"
    r"(?:files|file names|documents|workspace|folder contents)"
    r"(?: (?:are|is|do|have|did|there|here|i|we|you|exist|in|the|my|this|workspace|conversation"
    r"|folder|so far|got|get|written|write|made|make|created|create|saved|save"
    r"|available|stored|currently|now|that|been))*",
    re.IGNORECASE,
)
_ENDING: Final = re.compile(
    r".{0,40}\bfiles?\b.{0,30}\b(?:end(?:s|ing)?\s(?:with|in|on)"
    r"|extension)\s[\ue000-\uf8ff]?[\"'`]?\.?(\w{1,5})\b.{0,10}|.{0,20}\*\.(\w{1,5})|.{0,30}\b(python"
    r"|json|markdown|text|csv) files.{0,20}",
    re.IGNORECASE,
)
_ENDINGS: Final = {"python": "py", "markdown": "md", "text": "txt"}
_EXISTS: Final = re.compile(
    r"(?:is there|do (?:i|we|you) have|does|have (?:i|we) (?:got )?|find|where is|locate"
    r"|did i (?:make|write|create|save)|search for)\s?(?:a |any |the |my |me )*(?:file "
    r"|document )?(?:called |named )?"
    r"(?P<name>\S+\.\w{1,5})(?: exist| there| anywhere| here| already| yet)*",
    re.IGNORECASE,
)


def _parse_listing(text: str, held: list[str]) -> Intent | None:
    """Parse a question for the names of files."""
    if _LISTING.fullmatch(text) and re.search(r"files|names|documents|workspace|folder", text, re.IGNORECASE):
        return SearchIntent(name_pattern=".")
    if (found := _ENDING.fullmatch(text)) and not held:
        word = str(found[found.lastindex or 0]).lower()
        return SearchIntent(name_pattern=rf"\.{re.escape(_ENDINGS.get(word, word))}$")
    if found := _EXISTS.fullmatch(text):
        names = find_file_names(found["name"])
        return SearchIntent(name_pattern=rf"(^|/){re.escape(names[0])}$") if names else None
    return None


_MENTION_VERB: Final = (
    r"(?:mentions?|contains?|has|have|says?|includes?|talks? about|speaks? of|holds?|refers? to|lists?)"
)
_FILE_SEARCHES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        (
            rf"(?:in )?(?:which|what) (?:of my |of the )?(?:files?|documents?"
            rf"|notes?)(?: of mine)? (?:that )?{_MENTION_VERB} (?:the )?(?:words? |name |text |phrase "
            rf"|term )?{_THING}(?: in (?:it|them))?"
        ),
        (
            rf"(?:in )?(?:which|what) (?:of my )?(?:files?|documents?) (?:is|are|was|does|do"
            rf"|did i (?:write|put|mention|save|note))(?: the)?(?: words?| name"
            rf"| text)? {_THING}(?: (?:mentioned|written|named|in|appear|occur|found|stored|stand"
            rf"|come up))*"
        ),
        (
            rf"(?:show|list|find|give)(?: me)?(?: all| the| my| every| any)* files? (?:that |which "
            rf"|with )?(?:{_MENTION_VERB} |mentioning |containing |with "
            rf"|about )?(?:the )?(?:words? )?{_THING}"
        ),
        (
            rf"(?:do|does) any(?: of (?:my|the|our))? ?(?:files?|documents?"
            rf"|notes?) (?:of mine )?{_MENTION_VERB} (?:the )?(?:words? |name |text )?{_THING}"
        ),
        (
            rf"is there (?:a |any )?(?:file|document) (?:that |which )?(?:{_MENTION_VERB}|with|about"
            rf"|mentioning|containing) (?:the )?(?:words? )?{_THING}"
        ),
        (
            rf"where (?:in|among) (?:my|the|our|all) (?:files?|documents?|notes|workspace) (?:is|are|do"
            rf"|does|did|have|has)(?: i| the| we)* (?:mention |write |written )?{_THING}(?: (?:mentioned"
            rf"|written|named|appear|occur|stand))*"
        ),
        (
            rf"where (?:did|have|do) (?:i|we) (?:write|written|note|noted|put|save|saved|mention|store"
            rf"|stored)(?: down| about| anything about)* {_THING}"
        ),
        (
            rf"where (?:is|are|do|does|did|have|has)(?: i| the| we)* (?:mention |write "
            rf"|written )?{_THING} (?:mentioned|written|named|appear|occur|stand)(?: in (?:my|the"
            rf"|our) (?:files?|documents?|notes|workspace))?"
        ),
        (
            rf"(?:is|are)(?: there)?(?: anything about| something about| the)? {_THING}(?: mentioned"
            rf"| written)?(?: anywhere)? in (?:any of )?(?:my|the|our) (?:files|documents|workspace)"
        ),
        (
            rf"(?:have|did) i (?:written|write|mention(?:ed)?|put|saved?) (?:anything about "
            rf"|something about )?{_THING}(?: anywhere)? in (?:any of )?(?:my|the|our|a) (?:files?"
            rf"|documents?|workspace)"
        ),
    )
)
_SEARCHES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        (
            rf"(?:search|look|grep|scan|check) (?:through |in |inside |across )?(?:all |all of )?(?:my "
            rf"|the |our |these )?(?:files?|documents?|notes|workspace|everything|folder"
            rf"|all)(?: here)? for (?:the )?(?:words? |name |text |phrase |term |string )?{_THING}"
        ),
        (
            rf"(?:search|grep|look|scan|find|locate|hunt)(?: for)?(?: me)? (?:the |any |every |all "
            rf"|each )*(?:words? |name |text |phrase |term |string |mentions? of |lines? (?:with"
            rf"|containing|about) |occurrences? of |places? (?:with|where) )?{_THING} (?:in|inside|within"
            rf"|through|across|among) (.{{1,80}})"
        ),
        (
            rf"(?:search|grep|look|scan|hunt) for (?:the |any |every |all )*(?:words? |name |text |phrase "
            rf"|term |string |mentions? of |lines? (?:with|containing|about) )?{_THING}"
        ),
        rf"(?:grep|rg) {_THING}",
        (
            rf"(?:search|find|locate) (?:the |every |all |any )*(?:words? |name |text |phrase |term "
            rf"|string |mentions? of |lines? (?:with|containing|about) )?{_THING}"
        ),
    )
)
_SEARCH_ONE: Final = re.compile(
    r"(?:search|scan|check|grep|look (?:in|through|inside)) (?:in "
    r"|through )?(.{1,80}?) for (?:the )?(?:words? |name |text )?(.{1,100})",
    re.IGNORECASE,
)
_ALL_FILES: Final = re.compile(r"\b(?:files|documents|workspace|folder|everything|all|them)\b", re.IGNORECASE)
_WEB: Final = re.compile(
    r"\b(?:web|internet|online|google|bing|wikipedia|youtube|news|website|net)\b|https?:", re.IGNORECASE
)


def _parse_file_search(text: str, held: list[str]) -> Intent | None:
    """Parse a question for the files that contain something."""
    if _WEB.search(text):
        return None
    for pattern in _FILE_SEARCHES:
        if found := pattern.fullmatch(text):
            words = _search_words(found[1], held)
            return SearchIntent(words=words) if words else None
    return None


def _search_words(text: str, held: list[str]) -> str:
    quoted = [restore_quotations(char, held) for char in text if "\ue000" <= char <= "\uf8ff"]
    return quoted[0] if quoted else re.sub(r"^(?:the|a|an|my|any)\s", "", text.strip(" ?.!,;\"'"), flags=re.IGNORECASE)


_F: Final = r"(.{1,80}?)"
_SHOW_QUESTIONS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        (
            rf"(?:what's|whats|what is|what are|what was|what do i have|what have i got|who is|who's"
            rf"|who are)(?: all)?(?: the things| written| listed| stored| saved| the items)?(?: now"
            rf"| currently)? (?:in|inside|on|the contents? of|written in) {_F}(?: (?:right now|now|so far"
            rf"|again|currently|at the moment))?"
        ),
        rf"what (?:does|do|did) {_F} (?:say|contain|look like|hold|have in it|read)(?: now| right now| again)?",
        rf"what(?:'s| is) the (?:text|content|contents) (?:of|in) {_F}",
        (
            rf"(?:which|what) (?:items|things|names|lines|entries|words|people|tasks|stuff) (?:are|is"
            rf"|do i have|have i got|does it have|are there) (?:in|on) {_F}"
        ),
    )
)
_LINE: Final = re.compile(
    r"(?:what(?:'s| is| does)|which is|show(?: me)?|read(?: me)?|give me|tell me|print|display)?\s?(?:is )?(?:the )?"
    r"(?:line (\d{1,4})|((?:first|second|third|fourth|fifth|last) (?:line|item|entry|thing))) (?:of"
    r"|in|on|from) (.{1,80}?)(?: say)?",
    re.IGNORECASE,
)
_ABOUT: Final = re.compile(
    rf"what(?:'s| is| are) {_F} (?:all )?about|(?:what (?:is|are)|give me|i want|i need"
    rf"|can i have)?\s?(?:a |an |the )?(?:short |brief |quick )?"
    rf"(?:summary|gist|overview|main points?|key points?|essence|tl;?dr) (?:of|for|from|in) {_F}|tl;?dr {_F}",
    re.IGNORECASE,
)
_X: Final = r"(.{1,100}?)"
_CONTAINS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), thing, file)
    for pattern, thing, file in (
        (
            rf"(?:is there |do you see |can you find )?any(?:thing about| mention of| sign of)? {_X} (?:in|on) {_F}",
            1,
            2,
        ),
        (
            (
                rf"(?:is|are|was|were)(?: there)?(?: anything about| something about| any mention of)?(?: an?"
                rf"| any| the)? {_X}(?: already| still| listed| mentioned| written| included| now)* (?:in|on"
                rf"|part of) {_F}(?: already| yet| now)*"
            ),
            1,
            2,
        ),
        (
            (
                rf"(?:does|do|did) {_F} (?:already |still |also )?(?:contain|mention|include|have"
                rf"|say)(?: anything about| something about| any mention of)?(?: an?| any| the)? {_X}(?: in it"
                rf"| on it| already)*"
            ),
            2,
            1,
        ),
        (
            (
                rf"(?:did|have|has) (?:you|i|we)(?: already)? (?:add(?:ed)?|put|written?|write|include[d]?"
                rf"|note[d]?|list(?:ed)?)(?: an?| any| the)? {_X} (?:to|in|on|into|onto) {_F}(?: already| yet)*"
            ),
            1,
            2,
        ),
        (
            (
                rf"(?:do|have) (?:i|we)(?: already)? (?:have|got|need)(?: an?| any| the)? {_X} (?:in"
                rf"|on) {_F}(?: already| yet)*"
            ),
            1,
            2,
        ),
        (
            (
                rf"(?:check|see) (?:if|whether) {_F} (?:contains?|mentions?|includes?|has|lists?|says?)(?: an?"
                rf"| any| the)? {_X}"
            ),
            2,
            1,
        ),
        (
            (
                rf"(?:check|see) (?:if|whether)(?: there is| an?| any| the)* {_X} (?:is "
                rf"|are )?(?:already )?(?:in|on) {_F}"
            ),
            1,
            2,
        ),
    )
)


def _parse_file_question(text: str, held: list[str]) -> Intent | None:
    """Parse a question for the text of a file, what it is about, or whether it contains something."""
    for pattern in _SHOW_QUESTIONS:
        if (found := pattern.fullmatch(text)) and (mention := find_mention(found[1])):
            return ReadIntent(file=mention)
    if (found := _LINE.fullmatch(text)) and (mention := find_mention(found[3])):
        return ReadIntent(file=mention, kind="line", words=(found[1] or found[2]).lower())
    if (found := _ABOUT.fullmatch(text)) and (mention := find_mention(found[1] or found[2] or found[3])):
        return ReadIntent(file=mention, kind="summary")
    for pattern, thing, file in _CONTAINS:
        if (found := pattern.fullmatch(text)) and (mention := find_mention(found[file])) and not mention.is_pronoun:
            return ReadIntent(file=mention, kind="contains", words=_search_words(found[thing], held))
    return None


_STEP_DONE: Final = re.compile(
    r"^(?:(?:i|we)(?:'ve| have)? )?(?:\w+ ){0,3}?step\s(?:number )?(\d{1,2})\b.{0,30}\b(?:done"
    r"|finished|complete|completed|ready|off)\b"
    r"|^(?:mark|tick|check|cross|complete|finish)(?:ed)?(?: off)? step\s(?:number )?(\d{1,2})\b",
    re.IGNORECASE,
)
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth")
_NAMED_STEP_DONE: Final = re.compile(
    r"^(?:i|we)(?:'ve| have|'m| am)? (?:finished|completed|done(?: with)?|did) (?:the )?(first|second"
    r"|third|fourth|fifth) step\b"
    r"|^(?:the )?(?=(?:first|second|third|fourth|fifth) step is done)(\w+)",
    re.IGNORECASE,
)
_CLOSES: Final = re.compile(
    r"(?:close|end|cancel|drop|abandon|finish|delete|remove|discard|forget)\s(?:the|my|this|our"
    r"|that)\s(?:current )?plan[\s.!]*",
    re.IGNORECASE,
)
_SHOWS_PLAN: Final = re.compile(
    r"what(?:'s| is| was)(?: the)? step (?:number )?\d{1,2}[\s?.!]*|"
    r"(?:(?:show|display|read|print|list|see|view|give|tell|repeat)(?: me| us)?(?: again)?|what's"
    r"|what is|what was|how is|how's|where are we (?:in|with|on)|what are)?\s?"
    r"(?:next |left |the next step |the next |the state |the status |the progress |the (?:open "
    r"|remaining )?steps )?(?:(?:on|in|of|with|for) )?(?:the|my|our|this|current|that)(?: current"
    r"| open)? plan(?: so far| again| look like| now)?[\s?.!]*"
    r"|what(?:'s| is)(?: the)? next(?: step)?(?: (?:on|in|of) (?:the|my|our) plan)?[\s?.!]*"
    r"|which steps? (?:is|are) (?:next|left|open|done|still open).{0,30}",
    re.IGNORECASE,
)
