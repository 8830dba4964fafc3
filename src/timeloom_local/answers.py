"""Builds the final answer of a turn from the results of its clauses, with quotations and citations."""

import re
from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from timeloom_local import grammar, prompts
from timeloom_local.edits import Edit, describe_edit
from timeloom_local.engine import GenerationRequest
from timeloom_local.read_catalogue import OfferedTool
from timeloom_local.read_prompt import PromptCall, PromptContent, PromptFile
from timeloom_local.reply import Parts, Slot, build_complete_reply
from timeloom_local.routing.router import ANSWER, Route, Router
from timeloom_local.text_rules import is_question

MAX_SHOWN_CHARS: Final = 1_500
"""Maximum length of a file's text in an answer."""

MAX_SENTENCES: Final = 200
"""Maximum number of sentences of a text that are searched for an answer."""

MIN_SIMILARITY: Final = 0.35
"""Minimum similarity of a question and a sentence of an earlier text to answer from that text."""


class Clause(msgspec.Struct, kw_only=True):
    """A clause of the message with its route and its outcome; `answer` is an answer that is already known."""

    text: str
    route: Route
    call: PromptCall | None = None
    problem: str = ""
    files: list[PromptFile] = []
    edit: Edit | None = None
    answer: str = ""


class AnswerTexts(msgspec.Struct, frozen=True):
    """Texts beside an answer: the thinking, and the notes with the marks of a plan."""

    thinking: str
    notes: str = ""


def describe_abilities(tools: Iterable[OfferedTool]) -> str:
    """Return a text on the abilities of the model for people: what to ask for, and the purposes of other tools."""
    offered = {offer.tool_id: offer.purpose for offer in tools}
    known = [text for tool_id, text in _ABILITIES.items() if tool_id in offered]
    others = [purpose for tool_id, purpose in offered.items() if not tool_id.startswith(_BUILT_IN)]
    parts = [_DEMO, _to_list("You can ask me to:", [*known, _TALK])]
    if others:
        parts.append(_to_list("This server also has tools of its own:", others))
    return "\n\n".join(parts)


def _to_list(title: str, lines: Iterable[str]) -> str:
    return "\n".join([title, "", *(f"- {line}" for line in lines)])


def build_stopped_reply() -> Parts:
    """Return the reply to a user who asked to stop."""
    return build_complete_reply(["Stopped, as you asked."], thinking="The user asked to stop.")


def build_final_reply(steps: Sequence[Clause], prompt: PromptContent, router: Router, texts: AnswerTexts) -> Parts:
    """Return the reply that ends the turn."""
    parts: list[str | Slot] = []
    for step in steps:
        answer = _answer_clause(step, prompt, router)
        if answer:
            parts += ["\n\n", *answer] if parts else answer
        if step.problem:
            break
    if not parts:
        parts = [_NOTHING]
    tools = ", ".join(dict.fromkeys(call.tool_id for call in prompt.calls)) or "none"
    summary = f"Goal: {' '.join(prompt.message.split())[:200]}\nTools: {tools}"
    names = [step.files[0].name for step in steps if step.route.target == "react.patch" and step.files]
    names += [_changed_file_name(step.call) for step in steps if step.call and step.route.target == "react.write"]
    followups = [f"Show me {name}" for name in dict.fromkeys(names) if name][:2]
    step = find_completed_step(prompt)
    if step:
        parts = [f"Step {step} of the plan is done."]
    notes = f"✓ [{step}]" if step else texts.notes
    return build_complete_reply(parts, thinking=texts.thinking, notes=notes, followups=followups, summary=summary)


def find_completed_step(prompt: PromptContent) -> str:
    """Return the number of the plan step that the message reports as done; empty if there is none."""
    found = _STEP_DONE.search(prompt.message) if not prompt.calls else None
    return found[1] if found and 1 <= int(found[1]) <= len(prompt.plan) else ""


_STEP_DONE: Final = re.compile(
    r"\bstep\s(\d{1,2})\b.{0,40}\b(?:done|finished|complete|completed|ready)\b", re.IGNORECASE
)
_DEMO: Final = (
    "I am a small demo model. I show how timeloom works, and I am often wrong. Use plain words, and name files by "
    "their names."
)
_ABILITIES: Final = MappingProxyType(
    {
        "react.plan": "make a plan: “Make a plan for a birthday party”",
        "react.write": "write a file: “Create poem.md with a poem about the sea”",
        "react.patch": "change a file: “Replace 'apples' with 'pears' in shopping.txt”",
        "react.read": "show or summarize a file: “Summarize notes.md”",
        "react.rg": "search your files: “Which file contains 'budget'?”",
    }
)
"""What people can ask for, with an example, by the tool that does it. The other built-in tools serve the model."""
_TALK: Final = "answer a question, also about a text file that you attach"
_BUILT_IN: Final = ("react.", "exec_tools.")
_NOTHING: Final = "I could not do this in the rounds that I have."


def _answer_clause(step: Clause, prompt: PromptContent, router: Router) -> list[str | Slot]:
    if step.answer:
        return [step.answer]
    if step.problem:
        return [f"I could not do this: {_one_line(step.problem)}."]
    if step.call is None:
        return _answer_freely(step.text, prompt, router) if step.route.target == ANSWER else []
    match step.route.target:
        case "react.write":
            return [f"I wrote {_changed_file_name(step.call) or 'the file'}."]
        case "react.patch":
            name = step.files[0].name if step.files else _changed_file_name(step.call)
            return [f"I changed {name}: {describe_edit(step.edit)}." if step.edit else f"I changed {name}."]
        case "react.plan":
            steps = "\n".join(f"{n}. {text}" for n, (text, _) in enumerate(prompt.plan, 1))
            return [f"The plan is open:\n\n{steps}" if steps else "The plan is closed."]
        case "react.rg":
            return [_describe_matches(step.call)]
        case "react.read":
            return _answer_from_files(step, prompt, router)
        case _:
            text = step.call.text or step.call.status
            return _answer_from_text(step.text, text, [], router) if text else ["Done."]


def _answer_freely(message: str, prompt: PromptContent, router: Router) -> list[str | Slot]:
    """Answer a question about an attached text from that text, and everything else with the small model."""
    known = [file for file in prompt.files.values() if file.text and file.attached]
    if known and is_question(message):
        for file in reversed(known):
            sentences = _split_sentences(file.text or "")
            best = router.find_nearest(message, sentences, 1)
            if best and router.similarity(message, sentences[best[0]]) >= MIN_SIMILARITY:
                return _answer_from_text(message, file.text or "", _citation(file, prompt), router)
    generation = GenerationRequest(
        prompt=prompts.for_answer(message, prompt.exchanges), grammar=grammar.prose(900), max_tokens=160
    )
    return [Slot(generation=generation)]


def _answer_from_files(step: Clause, prompt: PromptContent, router: Router) -> list[str | Slot]:
    parts: list[str | Slot] = []
    shown = [file for file in _newest_versions(step.files, prompt) if file.text]
    for file in shown:
        answer = _answer_from_file(step.text, file, prompt, router)
        parts += ["\n\n", *answer] if parts else answer
    if not shown and step.call and step.call.text:
        return _answer_from_text(step.text, step.call.text, [], router)
    return parts or ["I have read it."]


def _newest_versions(files: Sequence[PromptFile], prompt: PromptContent) -> list[PromptFile]:
    return [prompt.files.get(file.path, file) for file in files]


def _answer_from_file(message: str, file: PromptFile, prompt: PromptContent, router: Router) -> list[str | Slot]:
    text, cites = file.text or "", _citation(file, prompt)
    if _SUMMARY.search(message):
        generation = GenerationRequest(prompt=prompts.for_summary(text), grammar=grammar.sentence(400), max_tokens=90)
        return [Slot(generation=generation), *cites]
    if is_question(message) and not _WHOLE.search(message):
        return _answer_from_text(message, text, cites, router)
    shown = text[:MAX_SHOWN_CHARS].rstrip()
    more = "\n…" if len(text) > MAX_SHOWN_CHARS else ""
    return [f"{file.name}:\n\n```\n{shown}{more}\n```"]


def _answer_from_text(question: str, text: str, cites: list[str | Slot], router: Router) -> list[str | Slot]:
    """Return a sentence of the model, then a quotation of the sentence that is most similar to the question."""
    sentences = _split_sentences(text)
    if not sentences:
        return ["There is nothing in it that I can read."]
    best = sentences[router.find_nearest(question, sentences, 1)[0]]
    generation = GenerationRequest(
        prompt=prompts.for_question(question, best),
        grammar=grammar.words_from([best, question], 30),
        max_tokens=60,
    )
    return [Slot(generation=generation), f"\n\n> {_one_line(best, 400)}", *cites]


def _citation(file: PromptFile, prompt: PromptContent) -> list[str | Slot]:
    sids = [source.sid for source in prompt.sources if source.where == file.path or source.title == file.name]
    return [f" [[S:{sids[-1]}]]"] if sids else []


def _split_sentences(text: str) -> list[str]:
    found = (part.strip() for line in text.splitlines() for part in _SENTENCE.split(line))
    return [part[:400] for part in found if any(map(str.isalnum, part))][:MAX_SENTENCES]


class _MatchedFile(msgspec.Struct):
    logical_path: str
    matches: list[dict[str, object]] = []


class _SearchStatus(msgspec.Struct):
    files: list[_MatchedFile] = []


def _describe_matches(call: PromptCall) -> str:
    try:
        files = msgspec.json.decode(call.status, type=_SearchStatus).files
    except msgspec.MsgspecError:
        return "The search is done."
    if not files:
        return "Nothing was found."
    lines = [f"- {file.logical_path.rpartition('/')[2]}{_format_matches(file)}" for file in files[:10]]
    return "Found in:\n\n" + "\n".join(lines)


def _format_matches(file: _MatchedFile) -> str:
    hits = [f"line {hit.get('line')}: {_one_line(str(hit.get('text')), 120)}" for hit in file.matches[:3]]
    return f" ({'; '.join(hits)})" if hits else ""


def _changed_file_name(call: PromptCall) -> str:
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
