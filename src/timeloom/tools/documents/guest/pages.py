"""Sets a page as PDF."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from timeloom.tools.documents.guest.assets import BASE, make_fetcher
from timeloom.tools.documents.guest.fonts import configure_fonts, warn_about_missing_fonts
from timeloom.tools.documents.guest.job import Job
from timeloom.tools.documents.guest.markup import build_page, load_style


def write_pdf(job: Job, target: Path) -> None:
    """Write the document as PDF."""
    turn = "@page { size: A4 landscape }" if job.landscape else ""
    lay_out(build_page(job), f"{load_style('pages.css')}\n{turn}", job).write_pdf(target, pdf_tags=True)
    document: Any = import_module("pypdfium2").PdfDocument(target)
    if len(document) < 1:
        raise ValueError("the PDF has no pages")
    document.close()


def lay_out(page: str, style: str, job: Job, more: Mapping[str, bytes] | None = None) -> Any:
    """Return WeasyPrint's document of the page."""
    configure_fonts()
    warn_about_missing_fonts(job)
    weasyprint: Any = import_module("weasyprint")
    fetcher = make_fetcher(job, more)
    sheet = weasyprint.CSS(string=style, base_url=BASE, url_fetcher=fetcher)
    return weasyprint.HTML(string=page, base_url=BASE, url_fetcher=fetcher).render(stylesheets=[sheet])
