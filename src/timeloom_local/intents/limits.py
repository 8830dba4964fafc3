"""Removes from a request what only limits it, such as `and leave everything else as it is`."""

import re
from typing import Final


def strip_limits(text: str) -> str:
    """Return the text without clauses that forbid other changes; a text that is such a clause stays."""
    cut = _BRACKETS.sub("", text)
    for pattern in _LIMITS:
        cut = pattern.sub("", cut)
    cut = cut.strip(" ,;")
    return cut if any(map(str.isalnum, cut)) else text


_BRACKETS: Final = re.compile(
    r"\s*\((?=[^()]{0,80}\b(?:only|just|nothing|not|no|don't|dont|leave|please|pls|thanks|ok)\b)[^()\d]{1,80}\)",
    re.IGNORECASE,
)
_START: Final = r"(?:(?<=\S)[,;.!]?\s+(?:-+\s+)?)(?:(?:and|but|so|also|please|pls|just|oh|btw)\s+){0,3}"
_REST: Final = r"(?:(?:all|everything|anything)(?: else)?|(?:the|my|any|all) (?:rest|others?|remaining)(?: of \w+)?)"
_END: Final = r"(?=\s*(?:[.!]|$))"
_LIMITS: Final = tuple(
    re.compile(_START + pattern + _END, re.IGNORECASE)
    for pattern in (
        (
            r"(?:leave|keep) [^.!?:]{1,50}? (?:alone|untouched|unchanged|as is|be|(?:just )?(?:as|like|how|the way) "
            r"(?:it|they|that) (?:is|are|was|were))"
        ),
        rf"(?:keep|leave) {_REST}(?: the same| in place| there)?",
        (
            r"(?:don't|dont|do not|never) (?:touch|change|alter|edit|modify|mess with|remove|delete|lose|overwrite) "
            rf"(?:{_REST}|the [\w. -]{{1,40}}|what(?:'s| is) (?:already )?there|any[\w ]{{1,30}}|\S{{1,60}}\.\w{{1,5}})"
        ),
        rf"(?:without (?:touching|changing|removing|losing)) (?:{_REST}|the [\w. -]{{1,40}}|what(?:'s| is) there)",
        r"(?:only|just) (?:that|this|the one|that one|there)(?: (?:one|word|line|file|bit|part))?",
        r"nothing (?:else|more)(?: please| in it| to change)?",
        r"(?:if that's|if it's|if that is) (?:not too much (?:trouble|to ask)|ok|okay|alright|possible|no bother)",
    )
)
