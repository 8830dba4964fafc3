/** The files attached to the next message. */
import { bytes } from "../app/format";
import { Icon } from "../app/Icon";
import type { PendingFile } from "./attachments";

interface Props {
  files: PendingFile[];
  /** The uploaded share, from 0 to 1; null if no upload is running. */
  progress: number | null;
  remove: (id: number) => void;
}

export function PendingFiles({ files, progress, remove }: Props) {
  if (!files.length) return null;
  return (
    <ul className="files" aria-label="Files to send">
      {files.map(({ id, file, refusal }) => (
        <li key={id} className={refusal ? "refused" : ""}>
          <Icon name="file" />
          <span className="file-name">{file.name}</span>
          <span className="dim">{bytes(file.size)}</span>
          {progress !== null && !refusal && <progress value={progress} aria-label={`Sending ${file.name}`} />}
          <button type="button" className="icon" aria-label={`Remove ${file.name}`} disabled={progress === 1} onClick={() => remove(id)}><Icon name="close" /></button>
          {refusal && <span className="why" role="alert">{refusal}</span>}
        </li>
      ))}
    </ul>
  );
}
