/** The empty state before the first message: the model, and messages to try. */
import { errorMessage, showToast, useAppStore } from "../app/appStore";
import { sendMessage } from "../app/liveConversation";
import { navigate } from "../app/route";
import { BundleChoice } from "./BundleChoice";

export function Welcome() {
  const me = useAppStore((state) => state.me);
  const examples = me?.examples ?? [];
  return (
    <div className="message-list welcome">
      <div>
        <img src="./icon.svg" alt="" width="56" height="56" />
        <h2>What shall we work on?</h2>
        {me?.model && (me.demo ? <DemoModel name={me.model} /> : <p>The model is <code>{me.model}</code>.</p>)}
        <BundleChoice />
        {examples.length > 0 && (
          <ul className="examples" aria-label="Examples">
            {examples.map((text) => (
              <li key={text}><button type="button" onClick={() => start(text)}>{text}</button></li>
            ))}
          </ul>
        )}
        <p>The timeline records every thought, tool call, file and source. Open the inspector to see what the model received in each round.</p>
      </div>
    </div>
  );
}

function DemoModel({ name }: { name: string }) {
  return (
    <p className="demo">
      <code>{name}</code> is a small demo model. For real work, start <code>timeloom serve --model anthropic:ID</code> or <code>openai:ID</code>.
    </p>
  );
}

function start(text: string): void {
  sendMessage(text, "message").then(navigate, (error: unknown) => showToast(errorMessage(error)));
}
