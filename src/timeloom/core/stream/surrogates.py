"""Unicode text in pieces: surrogate halves are joined across a cut, and lone ones become U+FFFD."""

REPLACEMENT = "\ufffd"


class ScalarFeed:
    """Gives back text in which every character can be encoded; the whole does not depend on how it was cut."""

    __slots__ = ("half",)

    def __init__(self) -> None:
        self.half = ""
        """The first half of a pair, held until its other half can have come; empty most of the time."""

    def feed(self, text: str) -> str:
        """The text so far unseen, less a first half at its end."""
        text = self.half + text
        self.half = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            self.half = text[-1]
            text = text[:-1]
        return mended(text)

    def close(self) -> str:
        """What is left when no more text comes."""
        left = REPLACEMENT if self.half else ""
        self.half = ""
        return left


def mended(text: str) -> str:
    """The text with its surrogate pairs joined and its lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
