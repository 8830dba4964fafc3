/** Builds the frame that draws diagrams: one document with its script inside, since a frame without an origin may load none. */
import { build, type Plugin } from "vite";

const KINDS = "flow|sequence|class|state|er|gantt|timeline|journey|quadrant|xychart|pie|gitGraph|mindmap";
const WANTED = new RegExp(`^\\./(?:chunks/mermaid\\.core/)?(?:chunk-|sizeCapture|dagre|${KINDS})`);
const UNWANTED = /^(?:elkjs|cytoscape|katex)/;
const NONE = "\0none";

/** Leaves out what mermaid would load for kinds of diagrams beyond those: two thirds of it. */
const few: Plugin = {
  name: "few-kinds",
  enforce: "pre",
  resolveId(id, from) {
    const beyond = id.startsWith(".") && from?.includes("/mermaid/dist/") && !WANTED.test(id);
    return beyond || UNWANTED.test(id) ? NONE : undefined;
  },
  load: (id) => (id === NONE ? "export default {}" : undefined),
};

export const diagramFrame: Plugin = {
  name: "diagram-frame",
  apply: "build",
  async generateBundle() {
    const lib = { entry: "src/diagram/frame.ts", formats: ["iife" as const], name: "frame", fileName: "frame" };
    const license = { fileName: "diagram.licenses.md" };
    const options = { write: false, target: "es2022", minify: true, lib, license, chunkSizeWarningLimit: 2000 };
    const built = await build({ configFile: false, logLevel: "warn", publicDir: false, plugins: [few], build: options });
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
