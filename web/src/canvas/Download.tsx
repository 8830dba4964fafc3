/** A download link: the newest version comes from the server, an older one from its text in the timeline. */
import { useEffect, useState } from "react";
import { Icon } from "../app/Icon";

interface Props {
  name: string;
  url: string;
  /** The text of an older version; null for the newest. */
  text: string | null;
}

export function Download({ name, url, text }: Props) {
  const [blobUrl, setBlobUrl] = useState("");
  useEffect(() => {
    if (text === null) return undefined;
    const address = URL.createObjectURL(new Blob([text]));
    setBlobUrl(address);
    return () => {
      URL.revokeObjectURL(address);
      setBlobUrl("");
    };
  }, [text]);
  return <a className="download" href={blobUrl || url} download={name}><Icon name="download" /> Download</a>;
}
