import { defineConfig } from "vite";

/** The stack that `npm run dev` works with, and its WebSocket. */
const stack = process.env.LONGHAUL_URL ?? "http://127.0.0.1:4780";
const websocket = process.env.LONGHAUL_WEBSOCKET ?? "ws://127.0.0.1:4781/live";

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
