import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";

/** The stack that `npm run dev` works with, and its WebSocket. */
const stack = process.env.LONGHAUL_URL ?? "http://127.0.0.1:4780";
const websocket = process.env.LONGHAUL_WEBSOCKET ?? "ws://127.0.0.1:4781/live";

/** Writes down the licences of the packages that are in the bundle, as they ask. */
function licences(): Plugin {
  return {
    name: "licences",
    generateBundle(_options, bundle) {
      const modules = Object.values(bundle).flatMap((chunk) => (chunk.type === "chunk" ? Object.keys(chunk.modules) : []));
      const packages = new Set<string>();
      for (const id of modules) {
        const found = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1];
        if (found && existsSync(join(found, "package.json"))) packages.add(found);
      }
      const texts = [...packages].map((path) => {
        const { name, version, license } = JSON.parse(readFileSync(join(path, "package.json"), "utf8"));
        const file = readdirSync(path).find((entry) => /^licen[cs]e/i.test(entry));
        if (!file) throw new Error(`${name} has no licence text`);
        return `${name} ${version} (${license})\n\n${readFileSync(join(path, file), "utf8").trim()}\n`;
      });
      const rule = `\n${"-".repeat(80)}\n\n`;
      this.emitFile({ type: "asset", fileName: "licences.txt", source: texts.sort().join(rule) });
    },
  };
}

export default defineConfig({
  // Every address is relative: a deployment may stand behind a stage's name.
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    // The bundle is kept with the api function, which carries it: who builds that needs no Node.js.
    outDir: "../../functions/api/console",
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        // Names without a hash: the function tells versions apart by ETag, and a rebuild changes files, not names.
        entryFileNames: "[name].js",
        chunkFileNames: "[name].js",
        assetFileNames: "[name][extname]",
      },
    },
  },
  server: {
    host: "127.0.0.1",
    proxy: { "/v1": stack },
  },
  plugins: [
    licences(),
    {
      name: "settings",
      configureServer(server) {
        server.middlewares.use("/settings.json", (_request, response) => {
          response.setHeader("content-type", "application/json");
          response.end(JSON.stringify({ api: "./", websocket, version: "dev" }));
        });
      },
    },
  ],
});
