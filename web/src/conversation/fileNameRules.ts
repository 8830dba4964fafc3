/** Checks file names by the server's rules before an upload, so that each bad name gets its own explanation. */

const MAX_BYTES = 255;
const MAX_DECODINGS = 8;
const FRACTION_SLASH = /\u2044/g;
const SEPARATORS =
  /[/\\\0\u2044\u2215\u2571\u27cb\u29f8\uff0f\u{1f67c}\u2216\u2572\u27cd\u29f5\u29f9\ufe68\uff3c\u{1f67d}]/u;
const DEVICE = /^(?:con|prn|aux|nul|com[1-9]|lpt[1-9]|conin\$|conout\$) *(?:[.:]|$)/i;
const FLAG = /(\u{1f3f4})[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{3,6}\u{e007f}/gu;
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]/u;
const JOINERS = new Set(["\u200c", "\u200d"]);

/** Return why the server would refuse this file name, or an empty string. The server has further checks of its own. */
export function fileNameProblem(name: string): string {
  if (new TextEncoder().encode(name).length > MAX_BYTES) return `Rename this file: its name is longer than ${MAX_BYTES} bytes.`;
  let form = name;
  for (let n = 0; n < MAX_DECODINGS; n++) {
    const decoded = percentDecoded(form);
    const plain = decoded.normalize("NFKC").replace(FRACTION_SLASH, "_");
    for (const one of [form, decoded, plain]) {
      const problem = problemIn(one);
      if (problem) return one === name ? `Rename this file: its name ${problem}.` : `Rename this file: its name decodes to “${one}”, which ${problem}.`;
    }
    if (plain === form) return "";
    form = plain;
  }
  return "Rename this file: its name is percent-encoded too many times.";
}

function problemIn(form: string): string {
  const separator = SEPARATORS.exec(form)?.[0];
  if (separator !== undefined) return `contains the path separator “${separator}”`;
  if (!form.replaceAll(".", "").trim()) return "has only dots or spaces";
  if (/^[a-z]:/i.test(form)) return `starts with a drive letter (“${form.slice(0, 2)}”)`;
  if (/[.\s\u2800]$/.test(form)) return "ends with a dot or a space";
  if (DEVICE.test(form)) return "is reserved for a device on some systems";
  const invisible = findInvisible(form);
  return invisible && `contains an invisible character (U+${invisible.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")})`;
}

function findInvisible(form: string): string {
  const letters = [...form.replace(FLAG, "$1")];
  const isJoined = (at: number) => [letters[at - 1], letters[at + 1]].every((one) => one !== undefined && one > "\x7f");
  return letters.find((one, at) => INVISIBLE.test(one) && !(JOINERS.has(one) && isJoined(at))) ?? "";
}

function percentDecoded(form: string): string {
  const plain = form.replace(/%u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
  return plain.replace(/(?:%[0-9a-f]{2})+/gi, (found) => {
    const raw = Uint8Array.from(found.slice(1).split("%"), (pair) => Number.parseInt(pair, 16));
    return new TextDecoder().decode(raw).replaceAll("\ufffd", "");
  });
}
