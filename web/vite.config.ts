import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { diagramFrame } from "./diagram.build.ts";
import { workerLicenses } from "./highlight.build.ts";

export default defineConfig({
  plugins: [react(), diagramFrame, workerLicenses],
  base: "./",
  worker: { format: "es" },
  build: {
    outDir: "../src/timeloom/web",
    emptyOutDir: true,
    target: "es2022",
    // Inlined files would become data: URLs, which the content policy allows only for images.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.md" },
    chunkSizeWarningLimit: 800,
  },
  server: { proxy: Object.fromEntries(["/approvals", "/chat", "/conversations", "/events", "/login", "/logout", "/me", "/ready", "/frame.html", "/diagram.html"].map((path) => [path, "http://127.0.0.1:8700"])) },
});
