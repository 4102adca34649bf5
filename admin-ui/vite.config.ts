/** Builds the page into dist/, from where the admin server serves `/ui`. */
import { defineConfig } from "vite";

export default defineConfig({
  base: "/ui/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  // Everything is in its own file: the server's content security policy allows no inline script, style or font.
  build: { assetsInlineLimit: 0, modulePreload: { polyfill: false }, reportCompressedSize: false },
  // `npm run dev -w admin-ui` serves the page and passes API requests to a running proxy.
  server: { proxy: { "^/(config_dump|traffic|limits|logging|memory|debug)": "http://127.0.0.1:15000" } },
});
