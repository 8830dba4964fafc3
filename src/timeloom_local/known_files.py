"""Finds the files that a mention means among those that the prompt shows."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom_local.intents.file_mentions import FILE_WORDS
from timeloom_local.intents.kinds import FileMention
from timeloom_local.intents.wording import is_one_error
from timeloom_local.prompt_content import PromptContent, PromptFile, path_order


class FileChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a mention means, the name of one that is unknown, or several candidates to choose from."""

    files: tuple[PromptFile, ...] = ()
    unknown: str = ""
    candidates: tuple[str, ...] = ()


def newest_files(prompt: PromptContent) -> list[PromptFile]:
    """Return the newest version of each file, in the order of their last mention."""
    found: dict[str, PromptFile] = {}
    for file in prompt.files.values():
        known = found.get(file.relative)
        if known is None or path_order(known.path) <= path_order(file.path):
            found.pop(file.relative, None)
            found[file.relative] = file
    return list(found.values())


def attached_files(prompt: PromptContent) -> list[PromptFile]:
    """Return the files that are attached to the current message; without any, those of earlier messages."""
    attached = [file for file in newest_files(prompt) if file.attached]
    here = [file for file in attached if file.is_of(prompt.turn)]
    # The order must not depend on what was read since: the calls of a turn follow it.
    return sorted(here or attached[-_MAX_ATTACHED:], key=lambda file: path_order(file.path))


def choose_files(mention: FileMention, prompt: PromptContent) -> FileChoice:
    """Return the files of the prompt that a mention means."""
    files = newest_files(prompt)
    if mention.names:
        return _choose_by_name(mention.names, files)
    if mention.is_attachment:
        return FileChoice(files=tuple(attached_files(prompt)))
    own = [file for file in files if not file.attached]
    if mention.is_pronoun:
        return FileChoice(files=tuple((own or files)[-1:]))
    if not mention.words:
        return FileChoice(files=tuple(own)) if len(own) == 1 else FileChoice(candidates=_names(own))
    return _choose_by_words(mention.words, files)


def find_similar_name(name: str, prompt: PromptContent) -> str:
    """Return the only known file name that differs from a name by one typing error, or only by its ending."""
    names = {file.name for file in newest_files(prompt)}
    wanted = name.rpartition("/")[2].lower()
    near = [
        known for known in sorted(names) if is_one_error(wanted, known.lower()) or _stem(wanted) == _stem(known.lower())
    ]
    return near[0] if len(near) == 1 else ""


def slug(words: str) -> str:
    """Return a file name made of words."""
    return "-".join(re.findall(r"[a-z0-9]+", words.lower()))[:40] + ".md"


_MAX_ATTACHED: Final = 3


def _stem(name: str) -> str:
    return name.rpartition(".")[0] or name


def _names(files: Sequence[PromptFile]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(file.name for file in files))


def _choose_by_name(names: Sequence[str], files: Sequence[PromptFile]) -> FileChoice:
    found: dict[str, PromptFile] = {}
    for name in names:
        folded = name.lower().removeprefix("files/")
        for file in reversed(files):
            relative = file.relative.lower()
            if relative in (folded, f"files/{folded}") or relative.endswith(f"/{folded}"):
                found.setdefault(name, file)
    unknown = next((name for name in names if name not in found), "")
    return FileChoice(files=tuple(found.values()), unknown=unknown)


def _choose_by_words(words: str, files: Sequence[PromptFile]) -> FileChoice:
    if both := _BOTH.fullmatch(words):
        return FileChoice(
            files=tuple(sorted(_of_kind(files, attached=both[1] is not None), key=lambda file: path_order(file.path)))
        )
    parts = [_choose_by_words(part, files) for part in words.split(" and ")] if " and " in words else []
    if parts and all(len(part.files) == 1 for part in parts):
        return FileChoice(files=tuple({file.path: file for part in parts for file in part.files}.values()))
    tokens = _tokens(words)
    special = tokens - {_root(word) for word in FILE_WORDS}
    fits = [file for file in files if special & _tokens(_stem(file.name))]
    best = [file for file in fits if special <= _tokens(_stem(file.name))] or fits
    if not best:
        best = [file for file in files if tokens & _tokens(_stem(file.name))]
    if not best and not special and len(files) == 1:
        best = list(files)
    if len(best) == 1:
        return FileChoice(files=tuple(best))
    candidates = best or ([] if special else files)
    return FileChoice(candidates=_names(candidates), unknown="" if candidates else words)


def _of_kind(files: Sequence[PromptFile], *, attached: bool) -> list[PromptFile]:
    return [file for file in files if file.attached == attached]


def _tokens(text: str) -> set[str]:
    plain = re.sub(r"\bto[- ]?do\b", "todo", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower().replace("_", " "))
    return {_root(word) for word in re.findall(r"[a-z0-9]+", plain) if word not in _SMALL_WORDS}


def _root(word: str) -> str:
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > _MIN_PLURAL else word


_BOTH: Final = re.compile(
    r"(?:both|all)(?: (?:of )?(?:the|my|our))?(?: (?:files|lists|notes|documents)|(?: attachments)()|(?: of them)?)",
    re.IGNORECASE,
)
_MIN_PLURAL: Final = 3
_SMALL_WORDS: Final = frozenset(
    {"the", "my", "our", "a", "an", "of", "for", "and", "to", "with", "in", "on", "that", "this", "i"}
)
