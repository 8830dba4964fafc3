"""The workflow: gives the agent the documents, and checks the quotes of its answer against them."""

import re
from pathlib import Path
from typing import ClassVar, Final

from timeloom import Answer, BaseWorkflow, Payload, get_settings

from .index import DocumentIndex, Settings

_QUOTE: Final = re.compile(r"((?:^>.*\n?)+)", re.MULTILINE)
_PATH: Final = re.compile(r"`?(ks:[^\s`]+)`?")


class DocsWorkflow(BaseWorkflow):
    """Answers questions about the documents; a wrong quote goes back to the agent once."""

    index: ClassVar[DocumentIndex] = DocumentIndex({})

    async def on_bundle_load(self) -> None:
        """Read the documents once per process; with `--reload-bundles`, again when a file changes."""
        folder = Path(__file__).parent / get_settings(Settings).folder
        if not folder.is_dir():
            raise FileNotFoundError(f"the setting `folder` names no folder: {folder.name}")
        type(self).index = DocumentIndex.of_folder(folder)

    async def run(self, payload: Payload) -> Answer[str] | str:
        """Answer the message; `contents` lists the documents without a model."""
        if payload.message.strip().casefold() == "contents":
            return "\n".join(f"- `{path}`" for path in self.index.documents)
        react = await self.build_react(knowledge_space_fn=self.index.search, knowledge_read_fn=self.index.read)
        answer = await react.run(payload)
        wrong = wrong_quotes(answer.text, self.index)
        if answer.reason != "completed" or not wrong:
            return answer
        note = "These quotes are not in the document that they name. Correct them, or leave them out:\n"
        return await react.run(payload, note=note + "\n".join(wrong))


def wrong_quotes(answer: str, index: DocumentIndex) -> list[str]:
    """Return the quotes of the answer that are not in their document, each with its path."""
    wrong: list[str] = []
    for block in _QUOTE.findall(answer):
        lines = [line.lstrip("> ").strip() for line in block.splitlines()]
        named = _PATH.search(block)
        quote = " ".join(_PATH.sub("", line) for line in lines).strip(" -—\"'“”")
        if not named:
            wrong.append(f"- {quote}: the quote names no `ks:` path")
        elif not index.has_quote(named[1], quote):
            wrong.append(f"- {quote}: not in {named[1]}")
    return wrong
