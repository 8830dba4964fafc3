/** Dialogs: confirm an action that cannot be undone, and rename a conversation. */
import { AlertDialog } from "@base-ui/react/alert-dialog";
import { Dialog } from "@base-ui/react/dialog";
import { useState, type ReactNode } from "react";

interface ConfirmProps {
  title: string;
  button: string;
  close: () => void;
  confirm: () => void;
  children: ReactNode;
}

export function Confirm({ title, button, close, confirm, children }: ConfirmProps) {
  return (
    <AlertDialog.Root open onOpenChange={(open) => !open && close()}>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className="backdrop" />
        <AlertDialog.Popup className="dialog">
          <AlertDialog.Title render={<h2 />}>{title}</AlertDialog.Title>
          <AlertDialog.Description>{children}</AlertDialog.Description>
          <div className="row end">
            <AlertDialog.Close>Cancel</AlertDialog.Close>
            <button type="button" className="danger" onClick={confirm}>{button}</button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}

export function RenameDialog({ title, close, save }: { title: string; close: () => void; save: (text: string) => void }) {
  const [text, setText] = useState(title);
  return (
    <Dialog.Root open onOpenChange={(open) => !open && close()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog">
          <Dialog.Title render={<h2 />}>Rename the conversation</Dialog.Title>
          <form
            onSubmit={(event) => {
              event.preventDefault();
              if (text.trim()) save(text.trim());
            }}
          >
            <label className="sr" htmlFor="title">Title</label>
            <input id="title" value={text} maxLength={200} onChange={(event) => setText(event.target.value)} />
            <div className="row end">
              <Dialog.Close>Cancel</Dialog.Close>
              <button type="submit" className="primary" disabled={!text.trim()}>Rename</button>
            </div>
          </form>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
