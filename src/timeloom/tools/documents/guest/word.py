"""Writes DOCX."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from timeloom.tools.documents.guest.assets import find_asset
from timeloom.tools.documents.guest.blocks import Block, Run, parse_blocks
from timeloom.tools.documents.guest.job import Job

TEXT_WIDTH_CM: Final = 17.0
TEXT_HEIGHT_CM: Final = 22.0
_WEB: Final = ("http://", "https://", "mailto:")


def write_docx(job: Job, target: Path) -> None:
    """Write the document as DOCX."""
    blocks = parse_blocks(job.content)
    _Writer(job).write(blocks, target)
    docx: Any = import_module("docx")
    if not docx.Document(str(target)).element.body.xpath("./w:p | ./w:tbl"):
        raise ValueError("the document is empty")


class _Writer:
    """Writes the blocks of one document."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._docx: Any = import_module("docx")
        self._shared: Any = import_module("docx.shared")
        self._oxml: Any = import_module("docx.oxml")
        self._ns: Any = import_module("docx.oxml.ns").qn
        self._document: Any = self._docx.Document()
        self._bookmarks = 0
        self._lists: dict[int, int] = {}

    def write(self, blocks: Sequence[Block], target: Path) -> None:
        self._set_up(blocks)
        for at, block in enumerate(blocks):
            if block.kind == "note" and (at == 0 or blocks[at - 1].kind != "note"):
                self._document.add_heading("Notes", 2)
            self._add(block)
        self._add_sources()
        self._document.save(str(target))

    def _set_up(self, blocks: Sequence[Block]) -> None:
        first = next((block for block in blocks if block.kind == "heading" and block.level == 1), None)
        title = self._job.title or (first.text if first else "")
        # Its template has dates and an author of its own.
        self._document.core_properties.title, self._document.core_properties.author = title[:255], ""
        self._document.core_properties.comments = ""
        cm, section = self._shared.Cm, self._document.sections[0]
        section.page_width, section.page_height = cm(21), cm(29.7)
        section.left_margin = section.right_margin = cm(2)
        section.top_margin = section.bottom_margin = cm(2.2)
        self._set_styles()
        self._add_page_number(section.footer.paragraphs[0])
        if self._job.title and not (first and first.text.strip() == self._job.title.strip()):
            self._document.add_heading(self._job.title, 1)

    def _set_styles(self) -> None:
        pt, rgb, styles = self._shared.Pt, self._shared.RGBColor, self._document.styles
        styles["Normal"].font.name, styles["Normal"].font.size = "Calibri", pt(11)
        styles["Normal"].paragraph_format.space_after = pt(7)
        for level, size in enumerate((20, 15, 12.5, 11, 11, 11), 1):
            style = styles[f"Heading {level}"]
            style.font.name, style.font.size, style.font.color.rgb = "Calibri", pt(size), rgb(0x12, 0x23, 0x3D)
            # The theme's fonts would win over the name.
            fonts = style.element.rPr.rFonts
            for name in [each for each in fonts.attrib if each.endswith("Theme")]:
                del fonts.attrib[name]
            style.paragraph_format.space_before, style.paragraph_format.space_after = pt(14), pt(5)

    def _add_page_number(self, paragraph: Any) -> None:
        paragraph.alignment = 1
        for name in ("PAGE", " / ", "NUMPAGES"):
            if name.isspace() or not name.isalpha():
                paragraph.add_run(name)
                continue
            field = self._oxml.OxmlElement("w:fldSimple")
            field.set(self._ns("w:instr"), name)
            field.append(paragraph.add_run("1")._r)  # noqa: SLF001 - python-docx has no fields
            paragraph._p.append(field)  # noqa: SLF001

    def _add(self, block: Block) -> None:
        if block.kind != "item":
            self._lists.clear()
        match block.kind:
            case "heading":
                self._add_runs(self._document.add_heading("", min(block.level, 6)), block.runs)
            case "item":
                self._add_item(block)
            case "code":
                self._add_code(block.text)
            case "table":
                self._add_table(block)
            case "image":
                self._add_image(block.runs[0])
            case "rule":
                self._document.add_paragraph("―" * 20).alignment = 1
            case "note":
                paragraph = self._document.add_paragraph()
                self._bookmark(paragraph, f"note-{block.number}")
                self._add_runs(paragraph, (Run(f"{block.number}. "), *block.runs))
            case _:
                style = "Quote" if block.kind == "quote" else None
                self._add_runs(self._document.add_paragraph(style=style), block.runs)

    def _add_item(self, block: Block) -> None:
        level = min(block.level, 2)
        suffix = "" if level == 0 else f" {level + 1}"
        if not block.number:
            paragraph = self._document.add_paragraph(style=f"List Bullet{suffix}")
            runs = block.runs
        else:
            # The number is text: lists of this template would count on through the whole document.
            paragraph = self._document.add_paragraph()
            form = paragraph.paragraph_format
            form.left_indent, form.first_line_indent = self._shared.Cm(0.63 * (level + 1)), self._shared.Cm(-0.63)
            form.tab_stops.add_tab_stop(self._shared.Cm(0.63 * (level + 1)))
            runs = (Run(f"{block.number}.\t"), *block.runs)
        paragraph.paragraph_format.space_after = self._shared.Pt(3)
        self._add_runs(paragraph, runs)

    def _add_code(self, text: str) -> None:
        paragraph = self._document.add_paragraph()
        shade = self._oxml.OxmlElement("w:shd")
        for name, value in (("val", "clear"), ("color", "auto"), ("fill", "F3F5F8")):
            shade.set(self._ns(f"w:{name}"), value)
        paragraph._p.get_or_add_pPr().append(shade)  # noqa: SLF001 - python-docx has no shading
        paragraph.paragraph_format.line_spacing = 1.0
        self._add_runs(paragraph, (Run(text, code=True),))

    def _add_table(self, block: Block) -> None:
        columns = max(map(len, block.rows))
        table = self._document.add_table(rows=0, cols=columns, style="Light Grid Accent 1")
        for look in table._tbl.tblPr.xpath("./w:tblLook"):  # noqa: SLF001 - python-docx has no such flag
            look.set(self._ns("w:firstColumn"), "0")
            look.set(self._ns("w:val"), "0420")
        for at, row in enumerate(block.rows):
            added = table.add_row()
            cells = added.cells
            for cell, runs in zip(cells, row, strict=False):
                self._add_runs(cell.paragraphs[0], runs)
                cell.paragraphs[0].paragraph_format.space_after = self._shared.Pt(2)
            mark = self._oxml.OxmlElement("w:cantSplit" if at else "w:tblHeader")
            added._tr.get_or_add_trPr().append(mark)  # noqa: SLF001 - python-docx has no repeated heads
        self._document.add_paragraph().paragraph_format.space_after = self._shared.Pt(0)

    def _add_image(self, run: Run) -> None:
        file = find_asset(run.image, self._job)
        paragraph = self._document.add_paragraph()
        paragraph.alignment = 1
        if file is not None:
            try:
                shape = paragraph.add_run().add_picture(str(file))
            except (self._docx.image.exceptions.UnrecognizedImageError, OSError, ValueError, KeyError):
                self._job.warn(f"the picture {run.image} is none that DOCX can have; use PNG or JPEG")
            else:
                self._fit(shape)
                shape._inline.docPr.set("descr", run.text)  # noqa: SLF001 - python-docx has no descriptions
                return
        paragraph.add_run(run.text or run.image).italic = True

    def _fit(self, shape: Any) -> None:
        most_wide, most_high = self._shared.Cm(TEXT_WIDTH_CM), self._shared.Cm(TEXT_HEIGHT_CM)
        scale = min(1.0, most_wide / shape.width, most_high / shape.height)
        shape.width, shape.height = int(shape.width * scale), int(shape.height * scale)

    def _add_sources(self) -> None:
        if not self._job.sources or not self._job.sources_section:
            return
        self._document.add_heading("Sources", 2)
        for source in self._job.sources:
            paragraph = self._document.add_paragraph()
            self._bookmark(paragraph, f"source-{source.sid}")
            address = (Run(f"  {source.url}", italic=True),) if source.url and source.title else ()
            runs = (Run(f"[{source.sid}] ", bold=True), Run(source.label, href=source.url), *address)
            self._add_runs(paragraph, runs)

    def _add_runs(self, paragraph: Any, runs: Sequence[Run]) -> None:
        for run in runs:
            if run.image:
                self._job.warn(f"the picture {run.image} is inside of a heading or table, where DOCX has only its text")
            added: Any = paragraph.add_run(_printable(run.text))
            added.bold, added.italic = run.bold or None, run.italic or None
            added.font.strike, added.font.superscript = run.strike or None, run.raised or None
            if run.code:
                added.font.name, added.font.size = "Consolas", self._shared.Pt(9.5)
            if run.href:
                self._link(paragraph, added, run.href)

    def _link(self, paragraph: Any, run: Any, href: str) -> None:
        """Make the run a link to an address, or to a place of the document."""
        source = self._job.find_source(href)
        if source and not self._job.sources_section:
            href = source.url
        link = self._oxml.OxmlElement("w:hyperlink")
        if href.lower().startswith(_WEB):
            kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"
            link.set(self._ns("r:id"), paragraph.part.relate_to(href, kind, is_external=True))
        elif href.startswith(("#source-", "#note-")):
            link.set(self._ns("w:anchor"), href[1:])
        else:
            return
        run.font.color.rgb = self._shared.RGBColor(0x1F, 0x5A, 0x94)
        link.append(run._r)  # noqa: SLF001 - python-docx has no links
        paragraph._p.append(link)  # noqa: SLF001

    def _bookmark(self, paragraph: Any, name: str) -> None:
        self._bookmarks += 1
        for tag in ("w:bookmarkStart", "w:bookmarkEnd"):
            mark = self._oxml.OxmlElement(tag)
            mark.set(self._ns("w:id"), str(self._bookmarks))
            if tag.endswith("Start"):
                mark.set(self._ns("w:name"), name)
            paragraph._p.append(mark)  # noqa: SLF001 - python-docx has no bookmarks


def _printable(text: str) -> str:
    """Return the text without characters that XML does not have."""
    return "".join(char for char in text if char in "\t\n" or (char >= " " and char not in "\ufffe\uffff"))
