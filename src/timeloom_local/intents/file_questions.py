"""Parses questions and searches about files: their names, their text, and the words in them."""

import re
from typing import Final

from timeloom_local.intents.file_mentions import find_mention
from timeloom_local.intents.kinds import DeclineIntent, Intent, ReadIntent, SearchIntent
from timeloom_local.text_rules import find_file_names, restore_quotations


def parse_about_files(text: str, held: list[str]) -> Intent | None:
    """Parse a question for the names, the text or the words of files."""
    plain = text.rstrip(" ?.!")
    for parse in (_parse_listing, _parse_file_search, _parse_file_question):
        if found := parse(plain, held):
            return found
    return None


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
            if mention and mention.is_attachment:
                return ReadIntent(file=mention, kind="question", words=words)
            if mention and (mention.names or mention.words) and not _ALL_FILES.search(found[2]):
                return ReadIntent(file=mention, kind="contains", words=words)
            return SearchIntent(words=words) if words else None
    return None


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
            r"(?:i|we)(?:'ve| have)?(?: once| also)? (?:wrote|noted|put|saved|jotted|written|mentioned|got|have"
            r"|had)(?: down)? "
            r"(?:(?:something|stuff|a note|a line|anything|info)(?: down)?(?: somewhere)? (?:about|on|for"
            r"|regarding|with) )?(.{1,60}?)"
            r"(?: down)?(?: somewhere| in (?:one of )?(?:my|the) (?:files|notes)| in a file)*[,.;!?-]* ?(?:but )?"
            r"(?:which|what|in which|in what|where)(?: of (?:my|the))? ?(?:file|one|note|document|files)?\b.{0,40}"
        ),
        (
            r"(?:which|what) (?:of my |of the )?(?:file|note|document|one)s? (?:was|is|had|has|did) (?:it |that "
            r"|the one )?(?:that |where |with )?"
            r"(?:i )?(?:wrote |put |noted )?(?:that has |something |anything )?(?:about|the bit about"
            r"|the thing about) (.{1,60}?)(?: in)?"
        ),
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
    return quoted[0] if quoted else _NO_SEARCH_WORDS.sub("", _PART_ABOUT.sub("", text.strip(" ?.!,;\"'")))


_PART_ABOUT: Final = re.compile(
    r"^(?:the |a |any )?(?:sentence|line|part|passage|paragraph|bit|section|place|note|entry)s?"
    r" (?:about|on|with|regarding|that (?:mentions|says|talks about|is about)|which mentions|mentioning)\s",
    re.IGNORECASE,
)
_NO_SEARCH_WORDS: Final = re.compile(
    r"^(?:(?:where|in which|that|which)\s)?(?:(?:i|we)\s)?(?:(?:mention(?:ed)?|talk(?:ed)?|wrote|write|noted?"
    r"|say|said)\s"
    r"(?:down\s)?(?:(?:something|anything)\s)?(?:about\s)?)?(?:(?:the|a|an|my|any)\s)?(?=\S)",
    re.IGNORECASE,
)
"""Words before what is searched for, such as `where I mention the`."""


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
