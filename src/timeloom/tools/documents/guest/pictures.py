"""Draws HTML and SVG as PNG."""

from importlib import import_module
from pathlib import Path
from typing import Any

from timeloom.tools.documents.guest.job import Job
from timeloom.tools.documents.guest.markup import clean_html, load_style, wrap_page
from timeloom.tools.documents.guest.pages import lay_out

MAX_HEIGHT = 10_000
"""Largest height of a picture in CSS pixels; the rest of a page is cut off."""

MAX_PIXELS = 64_000_000

SVG_NAME = "picture.svg"


def write_png(job: Job, target: Path) -> None:
    """Write the picture; its height follows from its content."""
    more = {SVG_NAME: job.content.encode()} if job.format == "svg" else {}
    body = f'<img class="whole" src="{SVG_NAME}">' if more else clean_html(job.content)
    page, style = wrap_page(body, job.title), load_style("pictures.css")
    height = _measure_height(lay_out(page, f"{style}\n{_page_size(job.width, MAX_HEIGHT)}", job, more), job)
    drawn = lay_out(page, f"{style}\n{_page_size(job.width, height)}", job, more).write_pdf()
    if job.width * height * job.scale**2 > MAX_PIXELS:
        raise ValueError(f"the picture has more than {MAX_PIXELS} pixels; give a smaller width or scale")
    document: Any = import_module("pypdfium2").PdfDocument(drawn)
    # CSS pixels are 96 to the inch, points of a PDF 72.
    document[0].render(scale=job.scale * 96 / 72).to_pil().save(target)
    document.close()


def _page_size(width: int, height: int) -> str:
    return f"@page {{ size: {width}px {height}px; margin: 0 }}"


def _measure_height(document: Any, job: Job) -> int:
    if len(document.pages) > 1:
        job.warn(f"the picture is cut off at a height of {MAX_HEIGHT} pixels")
        return MAX_HEIGHT
    root: Any = document.pages[0]._page_box.children[0]  # noqa: SLF001 - WeasyPrint has no other way to measure
    height = int(-(-root.margin_height() // 1))
    if height < 1:
        raise ValueError("the picture is empty")
    return min(height, MAX_HEIGHT)
