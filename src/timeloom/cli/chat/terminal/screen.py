"""Shows an input line with a live area above it, and prints finished output above both."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, to_formatted_text
from prompt_toolkit.formatted_text.base import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import Dimension, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output

from timeloom.cli.sanitize import sanitize
from timeloom.platform.tasks import finishes_before

REDRAW_S: Final = 0.05
"""Minimum time between two redraws: a larger value stutters, a smaller one wastes processor time."""

SPIN_S: Final = 0.12

Key = Literal["interrupt", "leave", "back"]


class LineInput(msgspec.Struct, frozen=True):
    """Text of one or more lines that the user entered."""

    text: str


class KeyPress(msgspec.Struct, frozen=True):
    """A control key: Ctrl-C (`interrupt`), Ctrl-D on an empty line (`leave`) or Escape (`back`)."""

    key: Key


ScreenEvent = LineInput | KeyPress


class Screen:
    """Prints output, redraws the live area and queues input events; printed output is never overwritten."""

    def __init__(
        self,
        history: Path | None = None,
        *,
        complete: Callable[[str], str] = lambda text: text,
        input: Input | None = None,  # noqa: A002 - the library's word
        output: Output | None = None,
    ) -> None:
        self.events: asyncio.Queue[ScreenEvent] = asyncio.Queue()
        self.live: Callable[[int], list[str]] = lambda _: []
        """Returns the live area, at most the given number of lines."""
        self._prompt = "> "
        self._keeps_history = True
        self._escape_goes_back = False
        self._titled = False
        self._complete = complete
        self._live_lines: list[str] = []
        self._spinner_task: asyncio.Task[None] | None = None
        self._output = output or create_output()
        if isinstance(self._output, Vt100_Output):
            # No cursor position requests: drawing always begins at the start of a line.
            self._output.enable_cpr = False
        self._buffer = Buffer(multiline=True, history=_open_history(history))
        self._live_window = Window(FormattedTextControl(self._live_text), dont_extend_height=True, height=self._height)
        self._app: Application[None] = Application(
            layout=Layout(HSplit([self._live_window, self._input_window()])),
            key_bindings=self._key_bindings(),
            erase_when_done=True,
            min_redraw_interval=REDRAW_S,
            input=input or create_input(),
            output=self._output,
            before_render=self._before_render,
        )

    @property
    def columns(self) -> int:
        """The width of the terminal in columns."""
        return self._output.get_size().columns

    @property
    def rows(self) -> int:
        """The height of the terminal in rows."""
        return self._output.get_size().rows

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Take over the terminal, and restore it at the end."""
        started = asyncio.Event()
        app_task = asyncio.create_task(self._app.run_async(pre_run=started.set, set_exception_handler=False))
        await finishes_before(started.wait(), app_task)
        try:
            yield
        finally:
            self.spin(on=False)
            if self._app.is_running:
                self._app.exit()
            await app_task
            if self._titled:
                self._output.clear_title()
                self._output.flush()

    def print(self, text: str) -> None:
        """Print the text above the live area; it stays there."""
        if not self._app.is_running:
            self._output.write_raw(text.replace("\n", "\r\n") + "\r\n")
            self._output.flush()
            return
        self._app.renderer.erase()
        self._output.write_raw(text.replace("\n", "\r\n") + "\r\n")
        self._output.flush()
        self._app.invalidate()

    def refresh(self) -> None:
        """Redraw the live area."""
        self._app.invalidate()

    def title(self, text: str) -> None:
        """Set the title of the terminal's window."""
        self._titled = True
        self._output.set_title(sanitize(text))
        self._output.flush()

    def set_prompt(self, prompt: str = "> ", *, keeps_history: bool = True, escape_goes_back: bool = False) -> None:
        """Set the prompt, whether input is kept in the history and whether Escape sends a `back` event."""
        self._prompt = prompt
        self._keeps_history = keeps_history
        self._escape_goes_back = escape_goes_back
        self._app.invalidate()

    def spin(self, *, on: bool) -> None:
        """Start or stop the periodic redraw that animates the spinner."""
        if on and self._spinner_task is None:
            self._spinner_task = asyncio.create_task(self._spin())
        elif not on and self._spinner_task is not None:
            self._spinner_task.cancel()
            self._spinner_task = None

    async def _spin(self) -> None:
        while True:
            await asyncio.sleep(SPIN_S)
            self._app.invalidate()

    def _input_window(self) -> Window:
        return Window(
            BufferControl(self._buffer),
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=self._line_prefix,
            height=lambda: Dimension(min=1, max=max(self.rows // 2, 1)),
        )

    def _height(self) -> Dimension:
        return Dimension.exact(len(self._live_lines))

    def _live_text(self) -> StyleAndTextTuples:
        return to_formatted_text(ANSI("\n".join(self._live_lines)))

    def _before_render(self, app: Application[None]) -> None:
        typed = min(self._buffer.document.line_count, max(self.rows // 2, 1))
        self._live_lines = self.live(max(self.rows - typed - 1, 1))
        last = app.renderer.last_rendered_screen
        needed = app.layout.container.preferred_height(self.columns, self.rows).preferred
        if last is not None and last.height > needed:
            # The renderer never shrinks its area; without this, empty lines would stay below the input line.
            app.renderer.erase()

    def _line_prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        return [("bold", self._prompt if line == wrapped == 0 else "  ")]

    def _key_bindings(self) -> KeyBindings:
        keys = KeyBindings()

        def press(key: Key) -> Callable[[KeyPressEvent], None]:
            return lambda _: self.events.put_nowait(KeyPress(key))

        keys.add("enter")(self._on_enter)
        keys.add("escape", "enter")(_break_line)
        keys.add("c-j")(_break_line)
        keys.add("escape", filter=Condition(lambda: self._escape_goes_back))(press("back"))
        keys.add("c-c")(press("interrupt"))
        keys.add("<sigint>")(press("interrupt"))
        keys.add("c-d", filter=Condition(lambda: not self._buffer.text))(press("leave"))
        keys.add("tab")(self._on_tab)
        return keys

    def _on_enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = buffer.text
        buffer.reset(append_to_history=self._keeps_history and bool(text.strip()))
        self.events.put_nowait(LineInput(text))

    def _on_tab(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        before = buffer.document.text_before_cursor
        completed = self._complete(before)
        if completed.startswith(before):
            buffer.insert_text(completed[len(before) :])

    def take_input(self) -> str:
        """Clear the input line and return the text it held."""
        text = self._buffer.text
        self._buffer.reset()
        return text

    def prepend_input(self, text: str) -> None:
        """Insert text at the beginning of the input line."""
        self._buffer.document = Document(text + self._buffer.text)

    def drain_events(self) -> list[ScreenEvent]:
        """Remove and return all queued events."""
        return [self.events.get_nowait() for _ in range(self.events.qsize())]


def _break_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


def _open_history(path: Path | None) -> History:
    if path is None:
        return InMemoryHistory()
    try:
        # Readable by its owner only: the history holds everything the user typed.
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
