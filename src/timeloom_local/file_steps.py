"""The steps of intents about files: write, change, read, search and calculate."""

import re
from typing import Final

import msgspec

from timeloom.core.blocks.tool_traits import find_builtin_traits
from timeloom_local import answers, calls
from timeloom_local.intents.calculation_forms import FILE_TEXT, LAST_RESULT
from timeloom_local.intents.edits import (
    Edit,
    EditRefusal,
    LineInsertion,
    apply_edit,
    describe_edit,
    is_item,
    split_items,
)
from timeloom_local.intents.kinds import (
    CalculateIntent,
    ChangeIntent,
    FileMention,
    ReadIntent,
    SearchIntent,
    WriteIntent,
)
from timeloom_local.intents.wording import strip_politeness
from timeloom_local.known_files import choose_files, find_similar_name, newest_files, slug
from timeloom_local.prompt_content import PromptCall, PromptFile, path_order, split_path
from timeloom_local.quoting import find_answers, find_central, split_sentences
from timeloom_local.references import resolve_reference
from timeloom_local.steps import PATCH, SEARCH, WRITE, ClauseAnswer, StepContext, Steps, fail


def write_file(intent: WriteIntent, context: StepContext) -> Steps:
    """Write a new file; ask if the file exists and the request does not say that it is replaced."""
    content = (context.result or _last_result(context)) if intent.uses_result else intent.content
    if intent.reference:
        content = resolve_reference(intent.reference, context.result or _last_result(context), context)
    choice = choose_files(intent.file, context.prompt)
    name = (
        intent.file.names[0] if intent.file.names else choice.files[0].name if choice.files else slug(intent.file.words)
    )
    if not context.is_next(WRITE):
        known = [file for file in choice.files if not file.attached]
        if known and intent.appends and content:
            change = ChangeIntent(intent.file, LineInsertion(text=content, is_line=True))
            return (yield from change_file(change, context))
        if known and not intent.replaces and not (intent.appends and not content):
            return fail(
                f"{name} already exists, so I changed nothing. Say “Add … to {name}” to keep its "
                f"text, or “Overwrite {name} "
                "with …” to replace it."
            )
        if not content and not intent.subject:
            return fail(
                f"What shall I write to {name}? Please give me the words in quotation marks. I wrote nothing yet."
            )
    made = yield from context.call(
        WRITE,
        lambda: (
            calls.build_write_params(name, content) if content else calls.build_compose_params(name, intent.subject)
        ),
        "The name and the words are taken from the message.",
    )
    if made.failure:
        return fail(f"I could not write {name}: {answers.one_line(made.failure)}.")
    text = f"I wrote {answers.show_words(name, content)}" if content else f"I wrote {name}. {answers.MADE_UP}"
    return ClauseAnswer(parts=(text,), result=content, followups=(f"Show me {name}",))


def change_file(intent: ChangeIntent, context: StepContext) -> Steps:
    """Change a file by a diff; say so if it is missing, or if the change does not apply."""
    edit, prompt = _resolve_edit(intent, context), context.prompt
    if isinstance(edit, ClauseAnswer):
        return edit
    if intent.creates and isinstance(edit, LineInsertion) and _is_new(intent.file, context):
        written = WriteIntent(file=intent.file, content="\n".join(split_items(edit, [])))
        return (yield from write_file(written, context))
    file = yield from context.find_file(intent.file)
    if isinstance(file, ClauseAnswer):
        return file
    if file.attached:
        return fail(f"{file.name} is an attachment, and attachments cannot be changed. I changed nothing.")
    after: str | EditRefusal = ""
    text: str | ClauseAnswer = ""
    if not context.is_next(PATCH):
        text = yield from context.read_text(file)
    if not context.is_next(PATCH):
        if isinstance(text, ClauseAnswer):
            return text
        file = prompt.files.get(file.path, file)
        after = apply_edit(text, edit) if not file.is_cut else EditRefusal("it is too long for me to change")
        if isinstance(after, EditRefusal):
            return fail(f"I did not change {file.name}: {after.reason}.")
    before, changed = (text, after) if isinstance(text, str) else ("", "")
    made = yield from context.call(
        PATCH, lambda: calls.build_patch_params(file, before, changed, prompt), "The change is a small diff."
    )
    if made.failure:
        return fail(f"I could not change {file.name}: {answers.one_line(made.failure)}.")
    answer = f"I changed {file.name}: {describe_edit(edit)}."
    return ClauseAnswer(parts=(answer,), followups=(f"Show me {file.name}",))


def _resolve_edit(intent: ChangeIntent, context: StepContext) -> Edit | ClauseAnswer:
    """Return the edit with the text that its words refer to; the question for it if that is not clear."""
    if not intent.reference or not isinstance(intent.edit, LineInsertion):
        return intent.edit
    meant = resolve_reference(intent.reference, context.result or _last_result(context), context)
    if not meant:
        return fail(f"What do you mean by “{intent.reference}”? Please give me the words. I changed nothing yet.")
    return msgspec.structs.replace(intent.edit, text=meant, is_quoted=True, is_line=True)


def read_file(intent: ReadIntent, context: StepContext) -> Steps:
    """Read the files, then show them or quote from them."""
    files = yield from context.find_files(intent.file)
    similar = find_similar_name(intent.file.names[0], context.prompt) if len(intent.file.names) == 1 else ""
    note = ""
    if isinstance(files, ClauseAnswer) and similar:
        note = f"There is no file {intent.file.names[0]}, so I took {similar}.\n\n"
        files = choose_files(FileMention(names=(similar,)), context.prompt).files
    if isinstance(files, ClauseAnswer):
        return files
    texts: list[tuple[PromptFile, str]] = []
    for file in files:
        text = yield from context.read_text(file, always=True)
        if isinstance(text, ClauseAnswer):
            return text
        texts.append((file, text))
    match intent.kind:
        case "show":
            parts = [answers.show_text(file.name, text) for file, text in texts]
        case "summary":
            parts = [_summarize(file, text, context) for file, text in texts]
        case "line":
            parts = [_show_line(file, text, intent.words) for file, text in texts]
        case "contains":
            parts = [_find_in_text(file, text, intent.words) for file, text in texts]
        case "question":
            found = quote_answers(intent.words, texts, context)
            return ClauseAnswer(parts=(note, *found.parts), result=found.result)
    return ClauseAnswer(parts=(note + "\n\n".join(parts),), result="\n".join(text for _, text in texts))


def search_files(intent: SearchIntent, context: StepContext) -> Steps:
    """Search the files, and list the matches in their newest versions."""
    made = yield from context.call(
        SEARCH,
        lambda: calls.build_search_params(intent.words) if intent.words else {"name": intent.name_pattern},
        "The workspace is searched.",
    )
    if made.failure:
        return fail(f"I could not search: {answers.one_line(made.failure)}.")
    found = _newest_matches(made, context)
    if intent.words:
        lines = [f"- {file.name}{_format_matches(file)}" for file in found[:10]]
        named = answers.join_names(
            [file.name for file in choose_files(FileMention(words=intent.words), context.prompt).files]
        )
        nothing = f"I found nothing: no file contains “{intent.words}”." + (
            f" The name of {named} fits." if named else ""
        )
        return ClauseAnswer(parts=(f"Found “{intent.words}” in:\n\n" + "\n".join(lines) if lines else nothing,))
    names = sorted(
        {file.name for file in found} | {file.name for file in newest_files(context.prompt) if file.attached}
    )
    if intent.name_pattern != ".":
        names = sorted({file.name for file in found})
        nothing = "No, I could not find it: there is no such file here."
        return ClauseAnswer(parts=(f"Yes, here: {answers.join_names(names)}." if names else nothing,))
    else:
        nothing = "There are no files in this conversation yet."
    return ClauseAnswer(
        parts=("These files are here:\n\n" + "\n".join(f"- {name}" for name in names) if names else nothing,)
    )


def calculate(intent: CalculateIntent, context: StepContext) -> Steps:
    """Run the program of a calculation."""
    tool_id = next((name for name in context.tools if find_builtin_traits(name).runs_code), "")
    if not tool_id:
        return fail("I calculate only with programs, and this server lets me run none, so I cannot do this here.")
    program = intent.program
    if LAST_RESULT in program:
        last = _last_number(context)
        if not last:
            return fail("I have no result of a calculation to go on with. Please give me the number.")
        program = program.replace(LAST_RESULT, last)
    if intent.file:
        file = yield from context.find_file(intent.file)
        if isinstance(file, ClauseAnswer):
            return file
        path = msgspec.json.encode(calls.physical_path(file)).decode()
        program = program.replace(FILE_TEXT, f'(OUT_DIR / {path}).read_text(encoding="utf-8")')
    made = yield from context.call(
        tool_id, lambda: {"contract": (), "prog_name": "calculation"}, "A program calculates it.", program
    )
    printed = calls.read_printed(made.status)
    if made.failure or not printed:
        return fail(
            f"I ran a program, and it stopped with an error: {answers.one_line(made.failure or 'it printed nothing')}."
        )
    shown = f" **{printed}**" if "\n" not in printed else f"\n\n```\n{printed}\n```"
    return ClauseAnswer(
        parts=(f"I ran a small program:\n\n```python\n{program.strip()}\n```\n\nIt printed:{shown}",),
        result=printed.rpartition("result: ")[2],
    )


def quote_answers(question: str, texts: list[tuple[PromptFile, str]], context: StepContext) -> ClauseAnswer:
    """Return the sentences of texts that answer a question, as quotations with their sources."""
    found = [
        (sentence, file)
        for file, text in texts
        for sentence in find_answers(question, split_sentences(text), context.router)
    ]
    found.sort(key=lambda one: -one[0].score)
    found = [one for one in found if one[0].score >= found[0][0].score * MIN_OF_BEST]
    names = answers.join_names([file.name for file, _ in texts])
    if not found:
        nothing = f"I find nothing about that in {names}, so I do not know. I only quote sentences that are there."
        return ClauseAnswer(parts=(nothing,))
    quotes = [answers.quote(sentence.text, _citation(file, context)) for sentence, file in found[:2]]
    names = answers.join_names(list(dict.fromkeys(file.name for _, file in found[:2])))
    title = f"{names} {'say' if ' and ' in names else 'says'}:\n\n"
    return ClauseAnswer(parts=(title + "\n>\n".join(quotes),), result=found[0][0].text)


def _last_result(context: StepContext) -> str:
    """Return what the last answer of the conversation gave: its quotation, or what a program printed."""
    # After a sentence or a comma, `it` may mean what stands before it.
    if _SEVERAL.search(strip_politeness(context.prompt.message)):
        return ""
    reply = next((reply for _, reply in context.prompt.exchanges[-1:]), "")
    quoted = "\n".join(_CITED.sub("", line[2:]) for line in reply.split("\n") if line.startswith("> "))
    printed = _PRINTED.search(reply)
    return quoted or (printed[1] if printed else "")


def _last_number(context: StepContext) -> str:
    """Return the number that the last program of the conversation printed; empty if there is none."""
    printed = (_NUMBER_PRINTED.search(reply) for _, reply in reversed(context.prompt.exchanges))
    return context.result if _NUMBER.fullmatch(context.result) else next((one[1] for one in printed if one), "")


_NUMBER: Final = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?")
_NUMBER_PRINTED: Final = re.compile(r"It printed: \*\*(-?\d{1,30}(?:\.\d{1,30})?)\*\*")
MIN_OF_BEST: Final = 0.75
"""Minimum score of a second quotation, relative to the first."""

_SEVERAL: Final = re.compile(r"[.!?;,:]\s+\S")
_CITED: Final = re.compile(r"\s?\[\[S:[\d,]+\]\]$")
_PRINTED: Final = re.compile(r"It printed: \*\*(.{1,400})\*\*$")


def _is_new(mention: FileMention, context: StepContext) -> bool:
    """Return whether a file is not known, or was written by this step."""
    return context.is_next(WRITE) or (bool(mention.names) and not choose_files(mention, context.prompt).files)


def _summarize(file: PromptFile, text: str, context: StepContext) -> str:
    sentences = split_sentences(text)
    if len(sentences) <= _MAX_CENTRAL:
        return f"It is short, so here is all of it. {answers.show_text(file.name, text)}"
    quotes = [
        answers.quote(sentence, _citation(file, context)) for sentence in find_central(sentences, context.router, 3)
    ]
    return f"I cannot summarize in my own words. These sentences of {file.name} say most about it:\n\n" + "\n>\n".join(
        quotes
    )


_MAX_CENTRAL = 3


def _show_line(file: PromptFile, text: str, which: str) -> str:
    place, _, kind = which.partition(" ")
    lines = [line for line in text.split("\n") if is_item(line) or kind in ("", "line")]
    number = _PLACES.get(place) or int(place)
    if number > len(lines) or not lines:
        return f"{file.name} has only {len(lines)} lines."
    return f"That line of {file.name} is:\n\n> {answers.one_line(lines[number - 1 if number > 0 else number], 400)}"


_PLACES = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1}


def _find_in_text(file: PromptFile, text: str, words: str) -> str:
    wanted = words.lower()
    lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if wanted in line.lower()]
    if not lines and wanted.endswith("s"):
        lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if wanted[:-1] in line.lower()]
    if not lines:
        return f"No, {file.name} does not contain “{words}”."
    shown = "; ".join(f"line {n}: {answers.one_line(line, 120)}" for n, line in lines[:3])
    return f"Yes, {file.name} contains “{words}” ({shown})."


def _citation(file: PromptFile, context: StepContext) -> str:
    sources = context.prompt.sources
    sids = [source.sid for source in sources if source.where == file.path or source.title == file.name]
    return f" [[S:{sids[-1]}]]" if sids and file.attached else ""


class _MatchedFile(msgspec.Struct):
    logical_path: str
    matches: list[dict[str, object]] = []

    @property
    def name(self) -> str:
        """The path in the workspace, without the turn and its area."""
        return self.relative.partition("/")[2]

    @property
    def relative(self) -> str:
        """The path in the workspace, without the turn."""
        return split_path(self.logical_path)[1]


class _SearchStatus(msgspec.Struct):
    files: list[_MatchedFile] = []


def _newest_matches(call: PromptCall, context: StepContext) -> list[_MatchedFile]:
    """Return the found files without versions that a newer one has replaced."""
    try:
        files = msgspec.json.decode(call.status, type=_SearchStatus).files
    except msgspec.MsgspecError:
        return []
    newest = {file.relative: file.path for file in newest_files(context.prompt)}
    for file in files:
        newest[file.relative] = max(newest.get(file.relative, ""), file.logical_path, key=path_order)
    return [file for file in files if newest[file.relative] == file.logical_path]


def _format_matches(file: _MatchedFile) -> str:
    hits = [f"line {hit.get('line')}: {answers.one_line(str(hit.get('text')), 120)}" for hit in file.matches[:3]]
    return f" ({'; '.join(hits)})" if hits else ""
