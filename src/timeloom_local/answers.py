"""Builds the final answer of a turn from the results of its clauses, with quotations and citations."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from timeloom_local import grammar, prompts
from timeloom_local.edits import Edit, described
from timeloom_local.engine import Writing
from timeloom_local.read_catalogue import Offer
from timeloom_local.read_prompt import Call, File, Situation
from timeloom_local.reply import Parts, Slot, complete
from timeloom_local.routing.router import ANSWER, Route, Router
from timeloom_local.text_rules import is_question

MAX_SHOWN_CHARS: Final = 1_500
"""Maximum length of a file's text in an answer."""

MAX_SENTENCES: Final = 200
"""Maximum number of sentences of a text that are searched for an answer."""

RELATED: Final = 0.35
"""Minimum similarity of a question and a sentence of an earlier text to answer from that text."""


class Step(msgspec.Struct, kw_only=True):
    """A clause of the message with its route and its outcome; `answer` is an answer that is already known."""

    text: str
    route: Route
    made: Call | None = None
    problem: str = ""
    files: list[File] = []
    edit: Edit | None = None
    said: str = ""


class Manner(msgspec.Struct, frozen=True):
    """Texts beside an answer: the thinking, and the notes with the marks of a plan."""

    thinking: str
    notes: str = ""


def abilities(offers: Iterable[Offer]) -> str:
    """Return a text on the abilities of the model, with the tools of the catalogue."""
    lines = [f"- {offer.tool_id}: {offer.purpose}" for offer in offers]
    return "\n".join([f"{_ABLE} These are the tools:", "", *lines] if lines else [_ABLE])


def stopped_reply() -> Parts:
    """Return the reply to a user who asked to stop."""
    return complete(["Stopped, as you asked."], thinking="The user asked to stop.")


def final_reply(steps: Sequence[Step], situation: Situation, router: Router, manner: Manner) -> Parts:
    """Return the reply that ends the turn."""
    parts: list[str | Slot] = []
    for step in steps:
        said = _said_of(step, situation, router)
        if said:
            parts += ["\n\n", *said] if parts else said
        if step.problem:
            break
    if not parts:
        parts = [_NOTHING]
    tools = ", ".join(dict.fromkeys(call.tool_id for call in situation.calls)) or "none"
    summary = f"Goal: {' '.join(situation.message.split())[:200]}\nTools: {tools}"
    names = [step.files[0].name for step in steps if step.route.to == "react.patch" and step.files]
    names += [_name_of(step.made) for step in steps if step.made and step.route.to == "react.write"]
    followups = [f"Show me {name}" for name in dict.fromkeys(names) if name][:2]
    step = ticked(situation)
    if step:
        parts = [f"Step {step} of the plan is done."]
    notes = f"✓ [{step}]" if step else manner.notes
    return complete(parts, thinking=manner.thinking, notes=notes, followups=followups, summary=summary)


def ticked(situation: Situation) -> str:
    """Return the number of the plan step that the message reports as done; empty if there is none."""
    found = _STEP_DONE.search(situation.message) if not situation.calls else None
    return found[1] if found and 1 <= int(found[1]) <= len(situation.plan) else ""


_STEP_DONE: Final = re.compile(
    r"\bstep\s(\d{1,2})\b.{0,40}\b(?:done|finished|complete|completed|ready)\b", re.IGNORECASE
)
_ABLE: Final = (
    "I am a small demo model: I choose tools by how alike your words are to examples, and I am often wrong. Say what "
    "you want in plain words, and name files by their names. Questions I answer, also about texts that you attach."
)
_NOTHING: Final = "I could not do this in the rounds that I have."


def _said_of(step: Step, situation: Situation, router: Router) -> list[str | Slot]:
    if step.said:
        return [step.said]
    if step.problem:
        return [f"I could not do this: {_one_line(step.problem)}."]
    if step.made is None:
        return _spoken(step.text, situation, router) if step.route.to == ANSWER else []
    match step.route.to:
        case "react.write":
            return [f"I wrote {_name_of(step.made) or 'the file'}."]
        case "react.patch":
            name = step.files[0].name if step.files else _name_of(step.made)
            return [f"I changed {name}: {described(step.edit)}." if step.edit else f"I changed {name}."]
        case "react.plan":
            steps = "\n".join(f"{n}. {text}" for n, (text, _) in enumerate(situation.plan, 1))
            return [f"The plan is open:\n\n{steps}" if steps else "The plan is closed."]
        case "react.rg":
            return [_found(step.made)]
        case "react.read":
            return _from_files(step, situation, router)
        case _:
            text = step.made.text or step.made.status
            return _from_text(step.text, text, [], router) if text else ["Done."]


def _spoken(message: str, situation: Situation, router: Router) -> list[str | Slot]:
    """Answer a question about an attached text from that text, and everything else with the small model."""
    known = [file for file in situation.files.values() if file.text and file.attached]
    if known and is_question(message):
        for file in reversed(known):
            sentences = _sentences(file.text or "")
            best = router.nearest(message, sentences, 1)
            if best and router.likeness(message, sentences[best[0]]) >= RELATED:
                return _from_text(message, file.text or "", _cites(file, situation), router)
    writing = Writing(
        prompt=prompts.for_answer(message, situation.exchanges), grammar=grammar.prose(900), max_tokens=160
    )
    return [Slot(writing=writing)]


def _from_files(step: Step, situation: Situation, router: Router) -> list[str | Slot]:
    parts: list[str | Slot] = []
    shown = [file for file in _newest(step.files, situation) if file.text]
    for file in shown:
        said = _from_file(step.text, file, situation, router)
        parts += ["\n\n", *said] if parts else said
    if not shown and step.made and step.made.text:
        return _from_text(step.text, step.made.text, [], router)
    return parts or ["I have read it."]


def _newest(files: Sequence[File], situation: Situation) -> list[File]:
    return [situation.files.get(file.path, file) for file in files]


def _from_file(message: str, file: File, situation: Situation, router: Router) -> list[str | Slot]:
    text, cites = file.text or "", _cites(file, situation)
    if _SUMMARY.search(message):
        writing = Writing(prompt=prompts.for_summary(text), grammar=grammar.sentence(400), max_tokens=90)
        return [Slot(writing=writing), *cites]
    if is_question(message) and not _WHOLE.search(message):
        return _from_text(message, text, cites, router)
    shown = text[:MAX_SHOWN_CHARS].rstrip()
    more = "\n…" if len(text) > MAX_SHOWN_CHARS else ""
    return [f"{file.name}:\n\n```\n{shown}{more}\n```"]


def _from_text(question: str, text: str, cites: list[str | Slot], router: Router) -> list[str | Slot]:
    """Return a sentence of the model, then a quotation of the sentence that is most similar to the question."""
    sentences = _sentences(text)
    if not sentences:
        return ["There is nothing in it that I can read."]
    best = sentences[router.nearest(question, sentences, 1)[0]]
    writing = Writing(
        prompt=prompts.for_question(question, best),
        grammar=grammar.words_of([best, question], 30),
        max_tokens=60,
    )
    return [Slot(writing=writing), f"\n\n> {_one_line(best, 400)}", *cites]


def _cites(file: File, situation: Situation) -> list[str | Slot]:
    sids = [source.sid for source in situation.sources if source.where == file.path or source.title == file.name]
    return [f" [[S:{sids[-1]}]]"] if sids else []


def _sentences(text: str) -> list[str]:
    found = (part.strip() for line in text.splitlines() for part in _SENTENCE.split(line))
    return [part[:400] for part in found if any(map(str.isalnum, part))][:MAX_SENTENCES]


class _FoundFile(msgspec.Struct):
    logical_path: str
    matches: list[dict[str, object]] = []


class _Found(msgspec.Struct):
    files: list[_FoundFile] = []


def _found(call: Call) -> str:
    try:
        files = msgspec.json.decode(call.status, type=_Found).files
    except msgspec.MsgspecError:
        return "The search is done."
    if not files:
        return "Nothing was found."
    lines = [f"- {file.logical_path.rpartition('/')[2]}{_hits(file)}" for file in files[:10]]
    return "Found in:\n\n" + "\n".join(lines)


def _hits(file: _FoundFile) -> str:
    hits = [f"line {hit.get('line')}: {_one_line(str(hit.get('text')), 120)}" for hit in file.matches[:3]]
    return f" ({'; '.join(hits)})" if hits else ""


def _name_of(call: Call) -> str:
    files = [path for path in call.paths if path.startswith("fi:")]
    return files[-1].partition(".")[2].removeprefix("files/") if files else ""


def _one_line(text: str, limit: int = 300) -> str:
    return " ".join(text.split())[:limit].rstrip(".")


_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_SUMMARY: Final = re.compile(r"\b(?:summar|what .{0,60}\babout\b|overview|gist|main points)", re.IGNORECASE)
_WHOLE: Final = re.compile(
    r"^(?:what(?:'s| is| are)\s(?:in|inside|written in|the contents? of)|what does \S+ (?:say|contain)\b"
    r"|(?:can|could) you (?:show|read|open|display|print))",
    re.IGNORECASE,
)
