/** Builds the diagram frame as one document with an inline script, because a frame without an origin cannot load scripts. */
import { build, type Plugin } from "vite";

const KINDS = "flow|sequence|class|state|er|gantt|timeline|journey|quadrant|xychart|pie|gitGraph|mindmap";
const INCLUDED = new RegExp(`^\\./(?:chunks/mermaid\\.core/)?(?:chunk-|sizeCapture|dagre|${KINDS})`);
const EXCLUDED = /^(?:elkjs|cytoscape|katex)/;
const EMPTY_MODULE = "\0none";

/** Excludes the modules for all other kinds of diagrams, which are two thirds of mermaid. */
const fewKinds: Plugin = {
  name: "few-kinds",
  enforce: "pre",
  resolveId(id, from) {
    const isOtherKind = id.startsWith(".") && from?.includes("/mermaid/dist/") && !INCLUDED.test(id);
    return isOtherKind || EXCLUDED.test(id) ? EMPTY_MODULE : undefined;
  },
  load: (id) => (id === EMPTY_MODULE ? "export default {}" : undefined),
};

export const diagramFrame: Plugin = {
  name: "diagram-frame",
  apply: "build",
  async generateBundle() {
    const lib = { entry: "src/diagram/frame.ts", formats: ["iife" as const], name: "frame", fileName: "frame" };
    const license = { fileName: "diagram.licenses.md" };
    const options = { write: false, target: "es2022", minify: true, lib, license, chunkSizeWarningLimit: 2000 };
    const built = await build({ configFile: false, logLevel: "warn", publicDir: false, plugins: [fewKinds], build: options });
    for (const file of [built].flat().flatMap((one) => ("output" in one ? one.output : []))) {
      if (file.type === "asset") this.emitFile({ type: "asset", fileName: file.fileName, source: file.source });
      else this.emitFile({ type: "asset", fileName: "diagram.html", source: documentOf(file.code) });
    }
  },
};

function documentOf(script: string): string {
  const inside = script.replace(/<(?=\/script|!--)/gi, "\\x3c");
  return `<!doctype html>\n<meta charset="utf-8" />\n<title>Diagrams</title>\n<body><script>${inside}</script></body>\n`;
}
