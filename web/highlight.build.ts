/** Writes the licenses of the packages in the highlighting worker, which Vite leaves out of those of the page. */
import { build, type Plugin } from "vite";

export const workerLicenses: Plugin = {
  name: "worker-licenses",
  apply: "build",
  async generateBundle() {
    const lib = { entry: "src/markdown/highlight.worker.ts", formats: ["es" as const], fileName: "worker" };
    const options = { write: false, minify: false, lib, license: { fileName: "highlight.licenses.md" } };
    const built = await build({ configFile: false, logLevel: "error", publicDir: false, build: options });
    for (const file of [built].flat().flatMap((one) => ("output" in one ? one.output : []))) {
      if (file.type === "asset") this.emitFile({ type: "asset", fileName: file.fileName, source: file.source });
    }
  },
};
