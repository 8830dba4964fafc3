/** What can be done with a conversation: name it, copy it, erase what it says, delete it. */
import { Menu } from "@base-ui/react/menu";
import { useState } from "react";
import { apiPath, post, request, type Schemas } from "../api/client";
import { Icon } from "../app/Icon";
import { navigate } from "../app/route";
import { listConversations, reloadConversation, showToast, useAppStore, errorMessage } from "../app/appStore";
import { Confirm, RenameDialog } from "./dialogs";

type Asked = "" | "rename" | "erase" | "delete";

export function ConversationMenu({ id, title }: { id: string; title: string }) {
  const [asked, setAsked] = useState<Asked>("");
  const name = title || "Untitled";
  const done = () => setAsked("");
  const act = (doing: Promise<unknown>) => {
    done();
    doing.then(() => listConversations()).catch((error: unknown) => showToast(errorMessage(error)));
  };
  const fork = () =>
    act(post<Schemas["Forked"]>(apiPath("conversations", id, "fork"), {}).then(({ conversation }) => navigate(conversation)));
  const remove = () =>
    act(
      request("DELETE", apiPath("conversations", id)).then(() => {
        if (useAppStore.getState().open?.id === id) navigate("");
      }),
    );
  return (
    <>
      <Menu.Root>
        <Menu.Trigger className="icon more" aria-label={`More about ${name}`}><Icon name="more" /></Menu.Trigger>
        <Menu.Portal>
          <Menu.Positioner className="card-place" side="bottom" align="end" sideOffset={4}>
            <Menu.Popup className="menu">
              <Menu.Item className="menu-item" onClick={() => setAsked("rename")}>Rename…</Menu.Item>
              <Menu.Item className="menu-item" onClick={fork}>Copy of the conversation</Menu.Item>
              <Menu.Item className="menu-item" onClick={() => setAsked("erase")}>Erase its content…</Menu.Item>
              <Menu.Item className="menu-item bad" onClick={() => setAsked("delete")}>Delete…</Menu.Item>
            </Menu.Popup>
          </Menu.Positioner>
        </Menu.Portal>
      </Menu.Root>
      {asked === "rename" && <RenameDialog title={title} close={done} save={(text) => act(post(apiPath("conversations", id, "title"), { title: text }))} />}
      {asked === "erase" && (
        <Confirm title={`Erase what “${name}” says?`} button="Erase" close={done} confirm={() => act(post(apiPath("conversations", id, "erase"), { all: true }).then(() => (reloadConversation(id), showToast("Everything in it was erased. That it was there is still on the timeline."))))}>
          All messages, files and sources in it are removed for good, with everything that was made from them. The timeline keeps only that something was there.
        </Confirm>
      )}
      {asked === "delete" && (
        <Confirm title={`Delete “${name}”?`} button="Delete" close={done} confirm={remove}>
          The conversation is removed with its files, also if the agent is still at work in it. This cannot be undone.
        </Confirm>
      )}
    </>
  );
}
