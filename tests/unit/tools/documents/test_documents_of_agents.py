"""Agents and their programs write documents, which become files and sources of the conversation."""

from pathlib import Path

from timeloom import Agent, Settings
from timeloom.config.sections.documents import DocumentSettings
from timeloom.testing import ScriptedModel, call, says

PROGRAM = """
made = rendering_tools.write_docx("files/letter.docx", content="# Letter\\n\\nDear Ann")
print(made["ok"], made["error"])
"""


SETTINGS = Settings(documents=DocumentSettings(enabled=True))


def test_a_document_is_a_file_and_a_source(tmp_path: Path) -> None:
    model = ScriptedModel(
        [
            call("rendering_tools.write_pdf", path="turn_1/files/report", content="# Ferries\n\n28 euros"),
            says("See the report [[S:1]]."),
        ]
    )
    answer = Agent(model, store=tmp_path, settings=SETTINGS).run_sync("Write a report.")
    assert answer.reason == "completed"
    (source,) = answer.sources
    assert (source.source_type, source.mime) == ("file", "application/pdf")
    assert source.physical_path.endswith("/files/report.pdf")
    (file,) = answer.files
    assert (file.mime, file.path) == ("application/pdf", source.artifact_path)
    (kept,) = tmp_path.glob("workspaces/*/*/files/report.pdf")
    assert kept.stat().st_size == file.size_bytes


def test_a_program_writes_a_document(tmp_path: Path) -> None:
    model = ScriptedModel(
        [
            f"<channel:code>{PROGRAM}</channel:code>" + call("exec_tools.execute_code_python", contract=[]),
            says("Done."),
        ]
    )
    answer = Agent(model, store=tmp_path, settings=SETTINGS).run_sync("Write a letter.")
    assert answer.reason == "completed"
    assert [file.path.rpartition("/")[2] for file in answer.files] == ["letter.docx"]
    assert list(tmp_path.glob("workspaces/*/*/files/letter.docx"))
