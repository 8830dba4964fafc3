/** A link that keeps a file: the newest version from the server, an older one from what is known of it here. */
import { useEffect, useState } from "react";
import { Icon } from "../app/Icon";

interface Props {
  name: string;
  url: string;
  /** The text of an older version. */
  text: string | null;
}

export function Download({ name, url, text }: Props) {
  const [made, setMade] = useState("");
  useEffect(() => {
    if (text === null) return undefined;
    const address = URL.createObjectURL(new Blob([text]));
    setMade(address);
    return () => {
      URL.revokeObjectURL(address);
      setMade("");
    };
  }, [text]);
  return <a className="download" href={made || url} download={name}><Icon name="download" /> Download</a>;
}
