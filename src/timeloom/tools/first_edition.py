"""The texts of built-in tools in edition 1 of the prompt. They never change; edition 2 shows the tools' docstrings."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec


class FirstEdition(msgspec.Struct, frozen=True):
    """The docstring and the examples of a tool in edition 1."""

    docstring: str
    examples: tuple[str, ...]


FIRST_EDITION: Final[Mapping[str, FirstEdition]] = MappingProxyType(
    {
        "react.read": FirstEdition(
            """Brings what logical paths lead to back into sight: messages, results, files, sources, summaries, skills.

A text within the limits comes whole; of a longer one as much as fits, each line behind its number, with
`[start-end]/total` on top. The numbers are for display and no part of the text. The status says how to go on.
What is in sight already is not repeated.

paths: logical paths: ar:, tc:, fi:, so:, su:, ws:, sk:, ks:
items: parts of texts by line, such as react.rg returns as read_item
stats_only: true for sizes and line counts without content
max_text_symbols: a smaller limit of symbols for each text
""",
            ('{"paths":["fi:turn_1.files/report.md"]}',),
        ),
        "react.rg": FirstEdition(
            """Finds files of the workspace by name and regions of text files by content, with regular expressions.

It searches what lies in the workspace: bring older files there with react.pull first. It does not search the
conversation. The result has ready-made read_items for react.read.

pattern: a regular expression that a line of the file must match
name: a regular expression that the file's name, or its path in the workspace, must match
roots: where to look: files/..., outputs/..., attachments/..., turn_.../..., fi:...; everywhere if left out
ignore_case: true to take no account of upper and lower case
""",
            ('{"pattern":"TODO","roots":["files/"]}',),
        ),
        "react.pull": FirstEdition(
            """Brings files of earlier turns, and attachments, into the workspace as read-only material for programs.

It shows no content: react.read does that. To edit a file of an earlier turn, use react.checkout or react.patch.

paths: fi: paths, or folders such as fi:turn_1.files/src/
""",
            ('{"paths":["fi:turn_1.user.attachments/data.csv"]}',),
        ),
        "react.checkout": FirstEdition(
            """Copies files of earlier turns into the current turn's files/, to be edited and tested there.

Only files/ are checked out; outputs and attachments are read with react.read or brought by react.pull. If one of
the files is missing, nothing is changed.

paths: fi: paths of files/, or folders such as fi:turn_1.files/src/
mode: overlay puts them over what is there; replace takes all other files of the current turn's files/ away
""",
            ('{"paths":["fi:turn_1.files/src/"]}',),
        ),
        "react.write": FirstEdition(
            """Writes a text file of the current turn: Markdown, HTML, JSON, code, notes.

A path of another turn means the same name in the current one. An empty text is refused.

path: where it is written, such as files/report.md or outputs/table.csv; a bare name lies in files/
channel: canvas shows it beside the chat, timeline_text in it; internal keeps it from the user
content: the whole text, without line numbers of a display
kind: file for something to keep or download, display for something to look at
scratchpad: with channel internal, keeps the text as a short note in sight too
""",
            ('{"path":"files/report.md","content":"# Report"}',),
        ),
        "react.patch": FirstEdition(
            """Edits a text file of the current turn by a unified diff, or replaces it by a whole new text.

Every context and removed line must stand in the file exactly so; there is no guessing. A file of another turn is
copied into the current one first. Line numbers of a display are no part of the file: leave them out.

path: the file, such as files/report.md or turn_1/files/report.md
patch: a unified diff of this one file with context lines, or the file's whole new text
""",
            ('{"path":"files/report.md","patch":"@@ -1 +1 @@\\n-# Report\\n+# The report"}',),
        ),
        "react.plan": FirstEdition(
            """Manages plans: checklists that stay in sight from round to round and from turn to turn.

Progress is not reported here but by marks in the notes of another round, such as `✓ [1]`, `… [2]`, `✗ [3]`.

mode: new opens a plan and makes it the current one; replace retires a plan for a new one; activate makes an older
    open plan the current one; close ends a plan
steps: for new and replace: 1 to 50 lines
plan_id: for activate; for replace and close where it is not the current plan
""",
            ('{"mode":"new","steps":["collect","compare"]}',),
        ),
        "react.hide": FirstEdition(
            """Puts a bulky recent block out of sight; react.read of the same path brings it back.

Only blocks after the pre-tail cache point can be hidden; an earlier one is refused with hide_before_cache.

path: the logical path of what is to be hidden
replacement: a few words of your own that say what it was and what matters of it
""",
            ('{"path":"tc:turn_1.18f62649fb3b.result","replacement":"fares of three ferries"}',),
        ),
        "exec_tools.execute_code_python": FirstEdition(
            """Runs the Python program of the code channel, isolated: no network, no secrets, only its own folders.

It finds files at OUT_DIR / "turn_…/files/…" (also outputs/, attachments/) and writes what it produces to
OUT_DIR / "<current turn>/files/…"; all else it writes is scratch. `await` works at the top level.
context_tools.fetch_ctx(path) brings what is at ar:, tc:, so:, ws:, su: and fi: paths; so: gives rows.
io_tools.tool_call(tool_id, params), or web_tools.web_search(…) and the like, call tools and return an object
with ok, error and ret. numpy, pandas and matplotlib are there if they are installed.

contract: the files to be produced, each with filepath (relative to OUT_DIR) or filename (in the current turn's
    files/), description and visibility (external or internal); empty for a program that only prints
prog_name: a short name for it
timeout_s: how long it may run
""",
            ('{"contract":[{"filename":"prices.csv","description":"price per place"}],"timeout_s":60}',),
        ),
    }
)
