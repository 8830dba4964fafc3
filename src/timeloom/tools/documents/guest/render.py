"""Renders the document of `job.json` into `result` and reports in `report.json`."""

import json
import os
import traceback
from pathlib import Path

from timeloom.tools.documents.guest.job import Job


def main(folder: str) -> None:
    """Render the job in that folder; a failure is a report, not an exception."""
    os.chdir(folder)
    job = Job.from_json(json.loads(Path("job.json").read_text(encoding="utf-8")))
    error = ""
    try:
        _render(job, Path("result"))
    except Exception as failure:  # noqa: BLE001 - hostile content can raise anything in a library
        traceback.print_exc()
        error = f"{type(failure).__name__}: {str(failure)[:300]}{_hint(failure)}"
    Path("report.json").write_text(json.dumps({"error": error, "warnings": job.warnings}), encoding="utf-8")


def _hint(failure: Exception) -> str:
    """Return what to install if a library is missing here."""
    if isinstance(failure, ImportError):
        return "; install the extra timeloom[documents] in the Python of the sandbox"
    if "cannot load library" in str(failure):
        return "; install Pango in the sandbox: libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0"
    return ""


def _render(job: Job, target: Path) -> None:
    # Each format loads its own libraries, which take most of the time of a small document.
    if job.kind == "pdf":
        from timeloom.tools.documents.guest.pages import write_pdf  # noqa: PLC0415

        write_pdf(job, target)
    elif job.kind == "png":
        from timeloom.tools.documents.guest.pictures import write_png  # noqa: PLC0415

        write_png(job, target.with_suffix(".png"))
        target.with_suffix(".png").rename(target)
    elif job.kind == "docx":
        from timeloom.tools.documents.guest.word import write_docx  # noqa: PLC0415

        write_docx(job, target)
    else:
        from timeloom.tools.documents.guest.slides import write_pptx  # noqa: PLC0415

        write_pptx(job, target)
