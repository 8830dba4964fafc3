/** The composer: open at all times. While a turn runs it adds to it, steers it, or stops it. */
import { useRef, useState, type ClipboardEvent, type KeyboardEvent } from "react";
import { ProblemError, STOPPED } from "../api/client";
import { go } from "../app/route";
import { Icon } from "../app/Icon";
import { say, stop, tellUser, usePage, wordsOf } from "../app/store";
import { attach, refuse, type Waiting } from "./attachments";
import { draftKey } from "./draft";
import { useDrop } from "./dropping";
import { WaitingFiles } from "./WaitingFiles";

export function Composer() {
  const state = usePage((page) => page.open?.status?.state ?? "idle");
  const conversation = usePage((page) => page.open?.id ?? "");
  const me = usePage((page) => page.me);
  const running = state !== "idle";
  const kept = draftKey(conversation);
  const [text, setText] = useState(() => window.sessionStorage.getItem(kept) ?? "");
  const [busy, setBusy] = useState(false);
  const [files, setFiles] = useState<Waiting[]>([]);
  const [progress, setProgress] = useState<number | null>(null);
  const closed = usePage((page) => page.open?.connection === "closed");
  const removed = useRef(new Set<number>());
  const uploading = useRef<{ files: Waiting[]; stop: AbortController }>(null);
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
    removed.current.clear();
    const stop = new AbortController();
    uploading.current = { files, stop };
    try {
      const id = await say(words, how, files.map((one) => one.file), { progress: setProgress, stop: stop.signal });
      setFiles((before) => before.filter((one) => !files.includes(one)));
      if (!conversation) go(id);
    } catch (error) {
      change(words);
      if (error instanceof ProblemError && error.code === STOPPED) setFiles((before) => before.filter((one) => !removed.current.has(one.id)));
      else if (files.length && error instanceof ProblemError && error.status >= 400) setFiles((before) => refuse(before, error.code, error.message));
      else tellUser(wordsOf(error));
    } finally {
      uploading.current = null;
      setBusy(false);
      setProgress(null);
      field.current?.focus();
    }
  };

  const halt = () => {
    stop().catch((error: unknown) => tellUser(wordsOf(error)));
    // The button goes away with the turn.
    field.current?.focus();
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

  // A file that is on its way stays until nothing of it is: what was taken out must not arrive.
  const remove = (id: number) => {
    const isOnItsWay = uploading.current?.files.some((one) => one.id === id);
    removed.current.add(id);
    if (isOnItsWay) uploading.current?.stop.abort();
    else setFiles((before) => before.filter((one) => one.id !== id));
  };

  const dropping = useDrop((dropped) => {
    if (!closed) add(dropped);
  });

  const key = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void send((event.ctrlKey || event.metaKey) && running ? "steer" : "message");
  };

  if (closed) {
    return (
      <div className="composer-place closed">
        <button type="button" onClick={() => go("")}><Icon name="plus" /> Begin a new conversation</button>
      </div>
    );
  }

  return (
    <div className="composer-place">
      {dropping && <div className="drop-hint"><span>Drop files to attach them</span></div>}
      <form className={`composer${dropping ? " dropping" : ""}`} onSubmit={(event) => (event.preventDefault(), void send("message"))}>
        <WaitingFiles files={files} progress={progress} remove={remove} />
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
              <button type="button" className="quiet" onClick={halt}>
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
