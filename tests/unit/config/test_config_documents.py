"""Whether agents have the document tools."""

import pytest

from tests.harness.config import resolve_settings
from tests.harness.exec import PlainSandbox
from timeloom.config import documents
from timeloom.config.documents import find_missing_libraries, make_document_tools
from timeloom.config.errors import ConfigError
from timeloom.tools.documents.tools import make_document_tools as make_tools

ON = "[documents]\nenabled = true\n"
ALL = ["write_pdf", "write_docx", "write_pptx", "write_png"]


def names_of(toml: str) -> list[str]:
    tools = make_document_tools(resolve_settings(toml), PlainSandbox())
    return [tool.spec.tool_id.removeprefix("rendering_tools.") for tool in tools]


def test_documents_are_off_unless_the_settings_enable_them() -> None:
    assert names_of("") == []
    assert names_of(ON) == ALL


@pytest.mark.parametrize("runtime", ['mode = "docker"', 'python = "/opt/other/bin/python"'])
def test_another_python_is_not_examined(runtime: str) -> None:
    assert names_of(f"{ON}\n[execution.runtime]\n{runtime}") == ALL


def test_libraries_are_found_by_their_names() -> None:
    assert find_missing_libraries(documents.LIBRARIES) == []
    assert find_missing_libraries(["no-such-library-1.0"]) == ["no-such-library-1.0"]


def test_a_missing_package_is_named_with_the_extra() -> None:
    with pytest.raises(ConfigError, match=r"\(no_such_module\).*timeloom\[documents\]"):
        documents.check_packages(["nh3", "no_such_module"])


def test_without_pango_only_office_files_are_offered() -> None:
    tools = make_tools(PlainSandbox(), has_pango=False)
    assert [tool.spec.tool_id for tool in tools] == ["rendering_tools.write_docx", "rendering_tools.write_pptx"]
    assert {tool.spec.effect for tool in tools} == {"idempotent"}
