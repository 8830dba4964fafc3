"""Removes politeness from a message, corrects typing errors in its verb, and recognizes other languages."""

import re
from functools import cache
from typing import Final

ADD: Final = frozenset(re.split(r"\s+", "add append put pop stick throw include insert chuck slip tack toss"))
WRITE: Final = frozenset(
    re.split(r"\s+", "write save store create make draft compose generate produce record keep start prepare jot note")
)
CHANGE: Final = frozenset(
    re.split(r"\s+", "replace change swap substitute exchange correct fix update set turn edit modify rename use")
)
REMOVE: Final = frozenset(re.split(r"\s+", "remove delete drop erase strike cross scratch take"))
READ: Final = frozenset(
    re.split(r"\s+", "show read open display print view cat see look check list summarize summarise")
)
SEARCH: Final = frozenset(re.split(r"\s+", "search find grep locate look"))
CALCULATE: Final = frozenset(
    re.split(r"\s+", "calculate compute evaluate sum multiply divide subtract run count convert average solve")
)
OTHER: Final = frozenset(
    re.split(
        r"\s+",
        "translate email mail send call text message post tweet publish upload download share draw "
        "paint play order buy "
        "book schedule remind browse google visit install deploy move copy merge sort undo revert restore archive "
        "encrypt compress zip quote cite explain describe tell teach recommend suggest compare rewrite improve shorten "
        "proofread clear empty wipe destroy kill overwrite convert close plan",
    )
)
QUESTION: Final = frozenset(
    re.split(
        r"\s+",
        "what what's whats which who who's whom whose when when's where where's why how how's is are "
        "was were am do does "
        "did can could will would should may might has have had",
    )
)
VERBS: Final = ADD | WRITE | CHANGE | REMOVE | READ | SEARCH | CALCULATE | OTHER

_LEAD: Final = re.compile(
    r"^(?:(?:oh no|oh dear|hey|hi|hello|yo|ok|okay|so|now|well|right|alright|great|cool|perfect|nice|thanks"
    r"|thank you|please|pls|plz"
    r"|plese|pleas|kindly|just|quickly|also|and|then|next|finally|first|again|maybe|perhaps|actually|hmm+|um+|oh|sorry"
    r"|excuse me|damn|gosh|omg|shoot|crap|yikes|dang|ah|aha|ugh|argh|oops|whoops|wait|btw|by the way"
    r"|one more thing|last thing|quick one|good (?:morning|afternoon|evening)|there|assistant|bot|timeloom|buddy|mate"
    r"|dear)\b[\s,.!;:-]+)+",
    re.IGNORECASE,
)
_ASK: Final = re.compile(
    r"^(?:(?:can|could|would|will|may|might)\s(?:you|u|we|i)\b(?:\s(?:be so kind (?:as )?to"
    r"|be able to|kindly|please|pls"
    r"|possibly|maybe|perhaps|just|quickly|also|mind|help me(?: to)?|go ahead and|ask you to|get you to|have you))*\s"
    r"|(?:i|we)(?:'d| would|'ll| will)?(?: also| really| just)? (?:like|want|need|love|wanna"
    r"|have)(?: for)?(?: you)? to\s"
    r"(?:(?:know|find out|hear)\s)?"
    r"|i (?:wonder|was wondering) if you (?:could|can|would)\s"
    r"|it would be (?:nice|great|good|lovely) if you (?:could |would )?"
    r"|(?:is it possible to|go ahead and|make sure (?:to|you|that you)|try to|let's|let us"
    r"|help me(?: to)?|do me a favou?r"
    r"(?: and|:|,)?|your task is to|you (?:should|must|need to)|don't forget to|be a dear and|feel free to)\s)",
    re.IGNORECASE,
)
_TRAIL: Final = re.compile(
    r"(?:[,\s]+(?:please|pls|plz|plese|thanks(?: a lot| so much)?|thank you(?: (?:very|so) much)?|thx|ty"
    r"|cheers|for me|if you can"
    r"|if possible|if you (?:don't|do not|wouldn't) mind|when you (?:can|have a moment|get a chance)|will you|would you"
    r"|right away|right now|now|asap|quickly|too|as well|aswell|also|again|lol|haha|btw|tho|mate|ok|okay|mate"
    r"|buddy))+\s*[.!?]*$",
    re.IGNORECASE,
)


def strip_politeness(text: str) -> str:
    """Return the text without polite words around the request, and without a question mark that they caused."""
    before, asked = "", False
    text = _MIDDLE.sub("", text.replace("’", "'")).strip()
    while text != before:
        before = text
        text = _LEAD.sub("", text)
        shorter = _ASK.sub("", text)
        asked, text = asked or shorter != text, shorter
        text = _TRAIL.sub("", text).strip()
    if asked and _first_word(text) not in QUESTION:
        text = text.rstrip(" ?")
    return correct_verb(text)


def expand_contractions(text: str) -> str:
    """Return the text with the apostrophes that people leave out, where only one word can be meant."""
    text = re.sub(
        r"\bid (?=(?:also |really |just )?(?:like|love|want|need|rather)\b)", "I'd ", text, flags=re.IGNORECASE
    )
    text = re.sub(r"(?<=\s)w/\s?(?=\w)", "with ", text)
    return re.sub(r"\b(?:dont|didnt|doesnt|cant|theres|thats)\b", _apostrophe, text, flags=re.IGNORECASE)


def _apostrophe(found: re.Match[str]) -> str:
    return f"{found[0][:-1]}'{found[0][-1]}"


def correct_verb(text: str) -> str:
    """Return the text with a typing error or a gerund in its first word corrected."""
    word = _first_word(text)
    if not word or word in VERBS or word in QUESTION:
        return text
    known = _SHORT_ERRORS.get(word) or _verb_of_gerund(word) or _nearest_verb(word)
    return known + text[len(word) :] if known else text


def correct_keywords(text: str) -> str:
    """Return the text with swapped letters in a few key words corrected, such as `plna`."""
    return _WORD.sub(lambda found: _keyword_errors().get(found[0].lower(), found[0]), text)


def is_foreign(text: str) -> bool:
    """Return whether the text is in another language than English: other letters, or other common words."""
    letters = [char for char in text if char.isalpha()]
    if letters and sum(char > "\u024f" for char in letters) * 2 > len(letters):
        return True
    words = {word.lower() for word in _LETTERS.findall(text)}
    english = len(words & _ENGLISH)
    return len(words & _FOREIGN) > english or bool(words & _FOREIGN_VERBS and english == 0)


def _first_word(text: str) -> str:
    found = _FIRST.match(text)
    return found[0].lower() if found else ""


def _verb_of_gerund(word: str) -> str:
    if not word.endswith("ing"):
        return ""
    stem = word[:-3]
    options = (stem, f"{stem}e", stem[:-1] if stem[-2:-1] == stem[-1:] else "")
    return next((option for option in options if option in VERBS), "")


def _nearest_verb(word: str) -> str:
    """Return the only verb with the same first letter that differs by one letter or by two swapped ones."""
    if len(word) < _MIN_CORRECTED or word in _NO_ERRORS:
        return ""
    known = VERBS | {"what", "which", "where", "when", "does"}
    near = [verb for verb in sorted(known) if len(verb) >= _MIN_CORRECTED and is_one_error(word, verb)]
    return near[0] if len(near) == 1 and near[0][0] == word[0] else ""


def is_one_error(word: str, meant: str) -> bool:
    """Return whether two words differ by one inserted, missing or other letter, or by two swapped ones."""
    if abs(len(word) - len(meant)) > 1 or word == meant:
        return False
    start = next((n for n, (a, b) in enumerate(zip(word, meant, strict=False)) if a != b), min(len(word), len(meant)))
    left, right = word[start:], meant[start:]
    return (
        left[1:] == right
        or left == right[1:]
        or left[1:] == right[1:]
        or (left[:2] == right[:2][::-1] and left[2:] == right[2:])
    )


@cache
def _keyword_errors() -> dict[str, str]:
    return {
        f"{word[:n]}{word[n + 1]}{word[n]}{word[n + 2 :]}": word
        for word in ("plan", "file", "files", "program", "attachment", "document", "checklist", "with", "to")
        for n in range(1 if len(word) > 2 else 0, len(word) - 1)
        if word[n] != word[n + 1] and word != "files"  # “flies” is a word
    }


_MIDDLE: Final = re.compile(r"(?<=\S)\s*,?\s+(?:please|pls|plz)(?=[\s,])", re.IGNORECASE)
_MIN_CORRECTED: Final = 4
_FIRST: Final = re.compile(r"[A-Za-z']+")
_WORD: Final = re.compile(r"(?<![\w./-])[A-Za-z]+(?![\w/-]|\.\w)")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_SHORT_ERRORS: Final = {
    "ad": "add", "addd": "add", "wirte": "write", "wrtie": "write", "serach": "search", "seach": "search",
    "calcualte": "calculate", "caclulate": "calculate", "repalce": "replace", "chnage": "change",
    "summerize": "summarize",
    "wat": "what", "wich": "which", "waht": "what", "shw": "show", "adn": "and", "mkae": "make", "opne": "open",
}  # fmt: skip
_NO_ERRORS: Final = frozenset(
    re.split(r"\s+", "that there these those their they them this sand lose note notes list file files rent cell bread")
)
_ENGLISH: Final = frozenset(
    re.split(
        r"\s+",
        "the a an to of in is it my me you i and for with on what how show read write add make "
        "please file files list do "
        "can from all that this are not your delete open save search find plan replace change who when where which",
    )
)
_FOREIGN: Final = frozenset(
    re.split(
        r"\s+",
        "der die das und ist nicht ein eine einen mit für über den dem wie wer wo wann bitte ich du "
        "mir mein meine auf von "
        "le la les un une des est et pour avec dans sur quel quelle que qui quoi bonjour merci je tu mon ma moi où "
        "el los las uno una y es por para con qué cómo cuál quién dónde hola gracias mi lo del al "
        "il gli uno di che per con non come quale chi dove ciao grazie mio mia "
        "o um uma é não com como qual quem onde olá obrigado meu minha "
        "het een van en niet met voor hoe wat mijn hallo och att som inte med hur vad jag",
    )
) - frozenset({"die", "in", "as", "do", "a", "me", "al", "con", "van", "met", "per", "come", "la", "el", "o", "y"})
_FOREIGN_VERBS: Final = frozenset(
    re.split(
        r"\s+",
        "schreibe schreib zeige zeig füge lösche mache suche übersetze écris montre ajoute supprime "
        "lis cherche escribe "
        "muestra muéstrame añade agrega borra crea busca lee scrivi mostra aggiungi cancella crea leggi mostre escreva "
        "adicione apague leia schrijf toon voeg skriv visa hola bonjour hallo ciao",
    )
)
