/** The choice of the bundle that a new conversation belongs to, and the name of the bundle of an open one. */
import type { BundleInfo } from "../api/client";
import { useAppStore } from "../app/appStore";

export function BundleChoice() {
  const bundles = useAppStore((state) => state.bundles);
  const chosen = useAppStore((state) => state.bundle);
  const [only] = bundles;
  if (!only) return null;
  if (bundles.length === 1) return <OnlyBundle bundle={only} />;
  return (
    <fieldset className="bundles">
      <legend>Choose what to talk to</legend>
      {bundles.map((one) => (
        <label key={one.name} className={one.name === chosen ? "chosen" : ""}>
          <input
            type="radio"
            name="bundle"
            value={one.name}
            checked={one.name === chosen}
            disabled={one.state === "disabled"}
            onChange={() => useAppStore.setState({ bundle: one.name })}
          />
          <span dir="auto">
            <strong>{one.title}</strong>
            {note(one) && <span className="note">{note(one)}</span>}
          </span>
        </label>
      ))}
    </fieldset>
  );
}

function OnlyBundle({ bundle }: { bundle: BundleInfo }) {
  return (
    <p className="only-bundle" dir="auto">
      <strong>{bundle.title}</strong>
      {note(bundle) && <span className="note"> {note(bundle)}</span>}
    </p>
  );
}

/** The bundle of the open conversation; nothing for a conversation without one. */
export function BundleName({ name }: { name: string }) {
  const title = useAppStore((state) => state.bundles.find((one) => one.name === name)?.title);
  return name ? <span className="bundle-name" dir="auto" title={`Bundle ${name}`}>{title ?? name}</span> : null;
}

const note = (bundle: BundleInfo) => bundle.fault || bundle.description;
