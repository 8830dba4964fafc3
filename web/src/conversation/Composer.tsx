/** The message field. While a turn runs it sends follow-ups, steers the turn or stops it. */
import { useEffect, useRef, useState, type ClipboardEvent, type KeyboardEvent } from "react";
import { ProblemError, UPLOAD_ABORTED } from "../api/client";
import { navigate } from "../app/route";
import { Icon } from "../app/Icon";
import { errorMessage, showToast, useAppStore } from "../app/appStore";
import { compactConversation, sendMessage, type SendMode, stopTurn } from "../app/liveConversation";
import { attach, checkContents, markRefused, type PendingFile } from "./attachments";
import { draftKey } from "./draft";
import { useFileDrop } from "./useFileDrop";
import { PendingFiles } from "./PendingFiles";

/** A command instead of a message: the words after it are the focus of the summary. */
const COMPACT = /^\/compact(\s[^]*)?$/;

export function Composer() {
  const state = useAppStore((page) => page.open?.status?.state ?? "idle");
  const conversation = useAppStore((page) => page.open?.id ?? "");
  const me = useAppStore((page) => page.me);
  const running = state !== "idle";
  const key = draftKey(conversation);
  const [text, setText] = useState(() => window.sessionStorage.getItem(key) ?? "");
  const [busy, setBusy] = useState(false);
  const [files, setFiles] = useState<PendingFile[]>([]);
  const [progress, setProgress] = useState<number | null>(null);
  const closed = useAppStore((page) => page.open?.connection === "closed");
  const removed = useRef(new Set<number>());
  const uploading = useRef<{ files: PendingFile[]; abort: AbortController }>(null);
  const picker = useRef<HTMLInputElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);

  const change = (value: string) => {
    setText(value);
    window.sessionStorage.setItem(key, value);
    if (field.current) fitHeight(field.current);
  };

  const blocked = files.some((one) => one.refusal);

  const send = async (mode: SendMode) => {
    const message = text.trim();
    if (!message || busy || blocked) return;
    setBusy(true);
    const compaction = COMPACT.exec(message);
    if (compaction && !files.length) {
      await compact(compaction[1] ?? "");
      return;
    }
    if (await refuseContents(files)) {
      setBusy(false);
      return;
    }
    change("");
    removed.current.clear();
    const abort = new AbortController();
    uploading.current = { files, abort };
    try {
      const id = await sendMessage(message, mode, files.map((one) => one.file), { progress: setProgress, abort: abort.signal });
      setFiles((before) => before.filter((one) => !files.includes(one)));
      if (!conversation) navigate(id);
    } catch (error) {
      change(message);
      if (error instanceof ProblemError && error.code === UPLOAD_ABORTED) setFiles((before) => before.filter((one) => !removed.current.has(one.id)));
      else if (files.length && error instanceof ProblemError && error.status >= 400) setFiles((before) => markRefused(before, error.code, error.message));
      else showToast(errorMessage(error));
    } finally {
      uploading.current = null;
      setBusy(false);
      setProgress(null);
      field.current?.focus();
    }
  };

  const compact = async (focus: string) => {
    try {
      showToast(await compactConversation(focus.trim()));
      change("");
    } catch (error) {
      showToast(errorMessage(error));
    } finally {
      setBusy(false);
      field.current?.focus();
    }
  };

  const stop = () => {
    stopTurn().catch((error: unknown) => showToast(errorMessage(error)));
    // The button disappears with the turn, so the focus needs a new place.
    field.current?.focus();
  };

  const add = (more: File[]) => {
    if (me) setFiles((before) => attach(before, more, me));
  };

  /** Mark the files whose content cannot be sent, and return whether there are any. */
  const refuseContents = async (pending: PendingFile[]): Promise<boolean> => {
    const problems = await checkContents(pending);
    if (problems.size) setFiles((before) => before.map((one) => ({ ...one, refusal: one.refusal || (problems.get(one.id) ?? "") })));
    return problems.size > 0;
  };
  useEffect(() => void refuseContents(files), [files]);

  const paste = (event: ClipboardEvent) => {
    const pasted = [...event.clipboardData.files];
    if (!pasted.length) return;
    event.preventDefault();
    add(pasted);
  };

  // Removing a file during an upload aborts the upload. The file stays listed until that is done, so it is never sent.
  const remove = (id: number) => {
    const isUploading = uploading.current?.files.some((one) => one.id === id);
    removed.current.add(id);
    if (isUploading) uploading.current?.abort.abort();
    else setFiles((before) => before.filter((one) => one.id !== id));
  };

  const isDragging = useFileDrop((dropped) => {
    if (!closed) add(dropped);
  });

  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void send((event.ctrlKey || event.metaKey) && running ? "steer" : "message");
  };

  if (closed) {
    return (
      <div className="composer-place closed">
        <button type="button" onClick={() => navigate("")}><Icon name="plus" /> Start a new conversation</button>
      </div>
    );
  }

  return (
    <div className="composer-place">
      {isDragging && <div className="drop-hint"><span>Drop files to attach them</span></div>}
      <form className={`composer${isDragging ? " dropping" : ""}`} onSubmit={(event) => (event.preventDefault(), void send("message"))}>
        <PendingFiles files={files} progress={progress} remove={remove} />
        <label className="sr" htmlFor="composer">Message</label>
        <textarea
          id="composer"
          ref={field}
          rows={1}
          autoFocus
          value={text}
          dir="auto"
          placeholder={running ? "Add a follow-up while the agent works…" : "Ask anything"}
          onChange={(event) => change(event.target.value)}
          onKeyDown={onKey}
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
          <span className="hint wide-only">{running ? "Enter sends a follow-up · Ctrl+Enter steers" : "Enter sends · Shift+Enter starts a new line"}</span>
          {running && (
            <>
              <button type="button" className="quiet" disabled={!text.trim() || busy || blocked} onClick={() => void send("steer")}>Steer</button>
              <button type="button" className="quiet" onClick={stop}>
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

function fitHeight(field: HTMLTextAreaElement): void {
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight, 240)}px`;
}
