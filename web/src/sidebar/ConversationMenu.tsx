/** The menu of a conversation: rename, duplicate, erase and delete. */
import { Menu } from "@base-ui/react/menu";
import { useState } from "react";
import { call } from "../api/client";
import { Icon } from "../app/Icon";
import { navigate } from "../app/route";
import { errorMessage, listConversations, showToast, useAppStore } from "../app/appStore";
import { reloadConversation } from "../app/liveConversation";
import { Confirm, RenameDialog } from "./dialogs";

type OpenDialog = "" | "rename" | "erase" | "delete";

export function ConversationMenu({ id, title }: { id: string; title: string }) {
  const [dialog, setDialog] = useState<OpenDialog>("");
  const name = title || "Untitled";
  const close = () => setDialog("");
  const run = (action: Promise<unknown>) => {
    close();
    action.then(() => listConversations()).catch((error: unknown) => showToast(errorMessage(error)));
  };
  const fork = () =>
    run(call("post_fork", { conversation_id: id, body: {} }).then(({ conversation }) => navigate(conversation)));
  const remove = () =>
    run(
      call("delete_conversation", { conversation_id: id }).then(() => {
        if (useAppStore.getState().open?.id === id) navigate("");
      }),
    );
  return (
    <>
      <Menu.Root>
        <Menu.Trigger className="icon more" aria-label={`Actions for ${name}`}><Icon name="more" /></Menu.Trigger>
        <Menu.Portal>
          <Menu.Positioner className="card-place" side="bottom" align="end" sideOffset={4}>
            <Menu.Popup className="menu">
              <Menu.Item className="menu-item" onClick={() => setDialog("rename")}>Rename…</Menu.Item>
              <Menu.Item className="menu-item" onClick={fork}>Duplicate</Menu.Item>
              <Menu.Item className="menu-item" onClick={() => setDialog("erase")}>Erase content…</Menu.Item>
              <Menu.Item className="menu-item bad" onClick={() => setDialog("delete")}>Delete…</Menu.Item>
            </Menu.Popup>
          </Menu.Positioner>
        </Menu.Portal>
      </Menu.Root>
      {dialog === "rename" && <RenameDialog title={title} close={close} save={(text) => run(call("post_title", { conversation_id: id, body: { title: text } }))} />}
      {dialog === "erase" && (
        <Confirm title={`Erase the content of “${name}”?`} button="Erase" close={close} confirm={() => run(call("post_erase", { conversation_id: id, body: { all: true } }).then(() => (reloadConversation(id), showToast("The content was erased. The timeline only shows where it was."))))}>
          This permanently removes all messages, files and sources of the conversation, and everything derived from them. The timeline only shows where they were. This cannot be undone.
        </Confirm>
      )}
      {dialog === "delete" && (
        <Confirm title={`Delete “${name}”?`} button="Delete" close={close} confirm={remove}>
          This removes the conversation and its files, even if the agent is still working in it. This cannot be undone.
        </Confirm>
      )}
    </>
  );
}
