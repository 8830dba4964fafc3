"""Writes PPTX: a slide for each heading of level 2, in 16:9."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from timeloom.tools.documents.guest.assets import find_asset
from timeloom.tools.documents.guest.blocks import Block, Run, parse_blocks
from timeloom.tools.documents.guest.job import Job

WIDTH_IN: Final = 13.333
HEIGHT_IN: Final = 7.5
MARGIN_IN: Final = 0.7
TOP_IN: Final = 1.55
BOTTOM_IN: Final = 6.9
_INK: Final = "1C2430"
_NAVY: Final = "12233D"
_BLUE: Final = "2F5D8A"
_WEB: Final = ("http://", "https://", "mailto:")
_SIZES: Final = (24, 20, 18, 16, 14)
"""Sizes of text in points, largest first. What does not fit in the smallest continues on the next slide."""

_CONTINUED: Final = 18
"""Size of text that continues on the next slide."""

_TABLE: Final = 16
"""Largest text of tables."""

_LEAST_ROWS: Final = 5
"""Fewest rows of a table that begin below other blocks; fewer begin on the next slide."""


@dataclass
class Slide:
    """A slide's title and blocks."""

    title: Sequence[Run]
    blocks: list[Block]
    is_opening: bool = False


def write_pptx(job: Job, target: Path) -> None:
    """Write the document as PPTX."""
    deck = split_slides(parse_blocks(job.content), job)
    writer = _Writer(job)
    for slide in deck:
        writer.add(slide)
    writer.presentation.save(str(target))
    pptx: Any = import_module("pptx")
    if not len(pptx.Presentation(str(target)).slides):
        raise ValueError("the presentation has no slides")


def split_slides(blocks: Sequence[Block], job: Job) -> list[Slide]:
    """Return the slides: an opening with the title, one for each heading of level 2, and the sources."""
    deck: list[Slide] = []
    if job.title:
        deck.append(Slide((Run(job.title),), [], is_opening=True))
    notes = [
        replace(block, kind="paragraph", runs=(Run(f"{block.number}. "), *block.runs))
        for block in blocks
        if block.kind == "note"
    ]
    for block in (each for each in blocks if each.kind not in ("note", "rule")):
        if block.kind == "heading" and block.level == 1 and not deck:
            deck.append(Slide(block.runs, [], is_opening=True))
        elif block.kind == "heading" and block.level <= 2:
            if not (deck and block.level == 1 and deck[0].is_opening and block.text.strip() == job.title.strip()):
                deck.append(Slide(block.runs, []))
        elif deck:
            deck[-1].blocks.append(block)
        else:
            deck.append(Slide((), [block]))
    if notes:
        deck.append(Slide((Run("Notes"),), notes))
    if job.sources and job.sources_section:
        deck.append(Slide((Run("Sources"),), [_source_block(each.sid, each.label, each.url) for each in job.sources]))
    return deck


def _source_block(sid: int, label: str, url: str) -> Block:
    return Block("paragraph", (Run(f"[{sid}] ", bold=True), Run(label, href=url)))


class _Writer:
    """Draws slides on two layouts of python-pptx's template, moved to 16:9."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._util: Any = import_module("pptx.util")
        self._rgb: Any = import_module("pptx.dml.color").RGBColor
        self.presentation: Any = import_module("pptx").Presentation()
        self.presentation.slide_width = self._util.Inches(WIDTH_IN)
        self.presentation.slide_height = self._util.Inches(HEIGHT_IN)
        self.presentation.core_properties.author = ""
        self.presentation.core_properties.title = job.title[:255]
        inner = WIDTH_IN - 2 * MARGIN_IN
        for layout in (self.presentation.slide_layouts[0], self.presentation.slide_layouts[5]):
            for shape in list(layout.placeholders):
                if shape.placeholder_format.type not in (1, 3, 4):
                    shape._element.getparent().remove(shape._element)  # noqa: SLF001 - there is no other way
        opening, content = self.presentation.slide_layouts[0], self.presentation.slide_layouts[5]
        self._place(opening.placeholders[0], (MARGIN_IN, 2.2, inner, 1.6))
        self._place(opening.placeholders[1], (MARGIN_IN, 4.0, inner, 1.4))
        self._place(content.placeholders[0], (MARGIN_IN, 0.45, inner, 0.9))

    def add(self, slide: Slide) -> None:
        """Draw the slide; what does not fit goes on a slide of the same title."""
        if slide.is_opening:
            self._add_opening(slide)
            return
        rest = slide.blocks
        page = 1
        while True:
            rest = self._add_content(slide.title, rest, page)
            page += 1
            if not rest:
                return

    def _add_opening(self, slide: Slide) -> None:
        made = self.presentation.slides.add_slide(self.presentation.slide_layouts[0])
        self._write(made.shapes.title.text_frame.paragraphs[0], slide.title, 40, _NAVY, bold=True)
        texts = [block for block in slide.blocks if block.kind in ("paragraph", "item", "quote")]
        if texts:
            self._write(made.placeholders[1].text_frame.paragraphs[0], texts[0].runs, 20, _INK)
        else:
            made.placeholders[1]._element.getparent().remove(made.placeholders[1]._element)  # noqa: SLF001
        self._bar(made, 3.85)
        rest = [block for block in slide.blocks if block not in texts[:1]]
        if rest:
            self.add(Slide(slide.title, rest))

    def _add_content(self, title: Sequence[Run], blocks: list[Block], page: int) -> list[Block]:
        made = self.presentation.slides.add_slide(self.presentation.slide_layouts[5])
        runs = (*title, Run(f" ({page})")) if page > 1 else title
        self._write(made.shapes.title.text_frame.paragraphs[0], runs, 28, _NAVY, bold=True)
        self._bar(made, 1.35)
        size = next(
            (size for size in _SIZES if sum(_height(each, size) for each in blocks) <= BOTTOM_IN - TOP_IN), _CONTINUED
        )
        top, at = TOP_IN, 0
        while at < len(blocks):
            group = self._take_text(blocks, at, size, BOTTOM_IN - top)
            if group:
                top += self._add_text(made, group, top, size)
                at += len(group)
                continue
            block = blocks[at]
            room = BOTTOM_IN - top
            fits = _height(block, size) <= room or (
                block.kind == "table" and _count_rows(block, size, room) > _LEAST_ROWS
            )
            if not fits and at:
                return blocks[at:]
            if block.kind == "table":
                used, left = self._add_table(made, block, top, min(size, _TABLE))
                top += used
                if left:
                    return [left, *blocks[at + 1 :]]
            elif block.kind == "image":
                top += self._add_image(made, block.runs[0], top)
            else:
                # A single text that is longer than a slide.
                first, rest = _cut(block, size)
                self._add_text(made, [first], top, size)
                return [rest, *blocks[at + 1 :]]
            at += 1
        return []

    def _take_text(self, blocks: Sequence[Block], at: int, size: int, room: float) -> list[Block]:
        group: list[Block] = []
        for block in blocks[at:]:
            room -= _height(block, size)
            if block.kind in ("table", "image") or room < 0:
                break
            group.append(block)
        return group

    def _add_text(self, made: Any, blocks: Sequence[Block], top: float, size: int) -> float:
        height = sum(_height(block, size) for block in blocks)
        box = made.shapes.add_textbox(*self._inches(MARGIN_IN, top, WIDTH_IN - 2 * MARGIN_IN, height))
        frame = box.text_frame
        frame.word_wrap = True
        for at, block in enumerate(blocks):
            paragraph = frame.paragraphs[0] if at == 0 else frame.add_paragraph()
            paragraph.space_after = self._util.Pt(size * 0.4)
            runs = tuple(block.runs)
            if block.kind == "item":
                runs = (Run(f"{block.number}. " if block.number else "• "), *runs)
                indent = self._util.Inches(0.3 * (block.level + 1))
                properties = paragraph._p.get_or_add_pPr()  # noqa: SLF001 - python-pptx has no indents
                properties.set("marL", str(int(indent)))
                properties.set("indent", str(-int(self._util.Inches(0.3))))
            bold = block.kind == "heading"
            italic = tuple(replace(run, italic=True) for run in runs) if block.kind == "quote" else runs
            self._write(paragraph, italic, size - 4 if block.kind == "code" else size, _INK, bold=bold)
        return height

    def _add_table(self, made: Any, block: Block, top: float, size: int) -> tuple[float, Block | None]:
        """Draw as many rows as fit; return the height, and the table of the rows that are left."""
        count = max(2, _count_rows(block, size, BOTTOM_IN - top))
        rows, left = block.rows[:count], block.rows[count:]
        columns = max(map(len, block.rows))
        heights = _row_heights(replace(block, rows=rows), size)
        height = sum(heights)
        area = self._inches(MARGIN_IN, top, WIDTH_IN - 2 * MARGIN_IN, height)
        table = made.shapes.add_table(len(rows), columns, *area).table
        for y, row in enumerate(rows):
            table.rows[y].height = self._util.Inches(heights[y])
            for x, runs in enumerate(row[:columns]):
                self._write(
                    table.cell(y, x).text_frame.paragraphs[0], runs, size, "FFFFFF" if y == 0 else _INK, bold=y == 0
                )
        return height + 0.2, replace(block, rows=(block.rows[0], *left)) if left else None

    def _add_image(self, made: Any, run: Run, top: float) -> float:
        file = find_asset(run.image, self._job)
        if file is None:
            return self._add_text(made, [Block("paragraph", (Run(run.text or run.image, italic=True),))], top, 14)
        try:
            shape = made.shapes.add_picture(str(file), *self._inches(MARGIN_IN, top))
        except (OSError, ValueError, KeyError):
            self._job.warn(f"the picture {run.image} is none that PPTX can have; use PNG or JPEG")
            return 0.0
        wide, high = self._inches(WIDTH_IN - 2 * MARGIN_IN, BOTTOM_IN - top)
        scale = min(wide / shape.width, high / shape.height, 1.5)
        shape.width, shape.height = int(shape.width * scale), int(shape.height * scale)
        shape.left = (self.presentation.slide_width - shape.width) // 2
        shape._element.nvPicPr.cNvPr.set("descr", run.text)  # noqa: SLF001 - python-pptx has no descriptions
        return shape.height / self._util.Inches(1) + 0.2

    def _write(self, paragraph: Any, runs: Sequence[Run], size: float, color: str, *, bold: bool = False) -> None:
        paragraph.alignment = 1
        for run in runs:
            added: Any = paragraph.add_run()
            added.text = run.text
            font = added.font
            font.size, font.bold, font.italic = self._util.Pt(size), bold or run.bold, run.italic
            font.name = "Consolas" if run.code else "Calibri"
            font.color.rgb = self._rgb.from_string(color)
            source = self._job.find_source(run.href)
            href = source.url if source else run.href
            if run.raised:
                font._element.set("baseline", "30000")  # noqa: SLF001 - python-pptx has no superscripts
            if href.lower().startswith(_WEB):
                added.hyperlink.address = href

    def _bar(self, made: Any, top: float) -> None:
        bar = made.shapes.add_shape(1, *self._inches(MARGIN_IN + 0.1, top, 1.2, 0.05))
        bar.fill.solid()
        bar.fill.fore_color.rgb = self._rgb.from_string(_BLUE)
        bar.line.fill.background()

    def _place(self, shape: Any, area: tuple[float, float, float, float]) -> None:
        shape.left, shape.top, shape.width, shape.height = self._inches(*area)

    def _inches(self, *values: float) -> tuple[int, ...]:
        return tuple(self._util.Inches(value) for value in values)


def _height(block: Block, size: float) -> float:
    """Return the estimated height of a block in inches."""
    if block.kind == "table":
        return sum(_row_heights(block, min(size, _TABLE))) + 0.2
    if block.kind == "image":
        return 3.5
    return _lines(block.text, _line_chars(size)) * size / 72 * 1.25 + size * 0.4 / 72


def _count_rows(block: Block, size: float, room: float) -> int:
    """Return how many rows of a table fit."""
    heights = accumulate(_row_heights(block, min(size, _TABLE)))
    return sum(1 for height in heights if height <= room)


def _row_heights(block: Block, size: float) -> list[float]:
    columns = max(map(len, block.rows))
    chars = max(1, _line_chars(size) // columns - 2)
    lines = [max((_lines("".join(run.text for run in runs), chars) for runs in row), default=1) for row in block.rows]
    return [size / 72 * (0.7 + 1.2 * count) for count in lines]


def _lines(text: str, width: int) -> int:
    return sum(max(1, -(-len(line) // width)) for line in text.split("\n"))


def _line_chars(size: float) -> int:
    return int((WIDTH_IN - 2 * MARGIN_IN - 0.4) * 72 / (size * 0.52))


def _cut(block: Block, size: float) -> tuple[Block, Block]:
    """Return the part of a long text that fills a slide, and the rest; both keep only their text."""
    lines = int((BOTTOM_IN - TOP_IN) / (size / 72 * 1.25)) - 2
    kept: list[str] = []
    for line in block.text.split("\n"):
        pieces = [line[at : at + _line_chars(size)] for at in range(0, len(line), _line_chars(size))] or [""]
        kept += pieces
    code = block.kind == "code"
    joiner = "\n" if code else ""
    return (
        replace(block, runs=(Run(joiner.join(kept[:lines]), code=code),)),
        replace(block, runs=(Run(joiner.join(kept[lines:]), code=code),)),
    )
