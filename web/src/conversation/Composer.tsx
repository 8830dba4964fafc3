/** The composer: open at all times. While a turn runs it adds to it, steers it, or stops it. */
import { useRef, useState, type ClipboardEvent, type DragEvent, type KeyboardEvent } from "react";
import { ProblemError } from "../api/client";
import { go } from "../app/route";
import { Icon } from "../app/Icon";
import { say, stop, tellUser, usePage, wordsOf } from "../app/store";
import { attach, refuse, type Waiting } from "./attachments";
import { WaitingFiles } from "./WaitingFiles";

export function Composer() {
  const state = usePage((page) => page.open?.status?.state ?? "idle");
  const conversation = usePage((page) => page.open?.id ?? "");
  const me = usePage((page) => page.me);
  const running = state !== "idle";
  const kept = `timeloom.draft.${conversation}`;
  const [text, setText] = useState(() => window.sessionStorage.getItem(kept) ?? "");
  const [busy, setBusy] = useState(false);
  const [files, setFiles] = useState<Waiting[]>([]);
  const [progress, setProgress] = useState<number | null>(null);
  const [dropping, setDropping] = useState(false);
  const picker = useRef<HTMLInputElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);

  const change = (value: string) => {
    setText(value);
    window.sessionStorage.setItem(kept, value);
    if (field.current) fit(field.current);
  };

  const blocked = files.some((one) => one.refusal);

  const send = async (how: "message" | "steer") => {
    const words = text.trim();
    if (!words || busy || blocked) return;
    setBusy(true);
    change("");
    try {
      const id = await say(words, how, files.map((one) => one.file), setProgress);
      setFiles([]);
      if (!conversation) go(id);
    } catch (error) {
      change(words);
      if (files.length && error instanceof ProblemError && error.status >= 400) setFiles(refuse(files, error.code, error.message));
      else tellUser(wordsOf(error));
    } finally {
      setBusy(false);
      setProgress(null);
      field.current?.focus();
    }
  };

  const add = (more: File[]) => {
    if (me) setFiles((before) => attach(before, more, me));
  };

  const paste = (event: ClipboardEvent) => {
    const pasted = [...event.clipboardData.files];
    if (!pasted.length) return;
    event.preventDefault();
    add(pasted);
  };

  const drop = (event: DragEvent) => {
    event.preventDefault();
    setDropping(false);
    add([...event.dataTransfer.files]);
  };

  const drag = (event: DragEvent) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    setDropping(true);
  };

  const key = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void send((event.ctrlKey || event.metaKey) && running ? "steer" : "message");
  };

  return (
    <div className="composer-place">
      <form
        className={`composer${dropping ? " dropping" : ""}`}
        onSubmit={(event) => (event.preventDefault(), void send("message"))}
        onDragOver={drag}
        onDragLeave={() => setDropping(false)}
        onDrop={drop}
      >
        <WaitingFiles files={files} progress={progress} remove={(id) => setFiles((before) => before.filter((one) => one.id !== id))} />
        <label className="sr" htmlFor="composer">Message</label>
        <textarea
          id="composer"
          ref={field}
          rows={1}
          autoFocus
          value={text}
          placeholder={running ? "Add something while it works…" : "Ask anything"}
          onChange={(event) => change(event.target.value)}
          onKeyDown={key}
          onPaste={paste}
        />
        <div className="composer-row">
          <input
            ref={picker}
            type="file"
            multiple
            hidden
            aria-label="Files"
            onChange={(event) => {
              const picked = [...(event.target.files ?? [])];
              event.target.value = "";
              add(picked);
            }}
          />
          <button type="button" className="icon" aria-label="Attach files" onClick={() => picker.current?.click()}><Icon name="clip" /></button>
          <span className="hint wide-only">{running ? "Enter adds a follow-up · Ctrl+Enter steers" : "Enter sends · Shift+Enter begins a line"}</span>
          {running && (
            <>
              <button type="button" className="quiet" disabled={!text.trim() || busy || blocked} onClick={() => void send("steer")}>Steer</button>
              <button type="button" className="quiet" onClick={() => void stop().catch((error: unknown) => tellUser(wordsOf(error)))}>
                <Icon name="stop" /> Stop
              </button>
            </>
          )}
          <button type="submit" className="send" aria-label={running ? "Send follow-up" : "Send"} disabled={!text.trim() || busy || blocked}>
            <Icon name="send" />
          </button>
        </div>
      </form>
    </div>
  );
}

function fit(field: HTMLTextAreaElement): void {
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight, 240)}px`;
}
