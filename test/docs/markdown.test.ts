import { expect, test } from "vitest";
import { anchorsOf, linksOf, npmScriptsOf } from "./markdown.ts";

test("links in code are examples, not links", () => {
  const page = "See [limits](docs/limits.md#burst) and `[x](gone.md)`.\n```md\n[y](gone.md)\n```\n![picture](a.png)\n";
  expect(linksOf(page)).toEqual(["docs/limits.md#burst", "a.png"]);
});

test("headings get the anchors of GitHub", () => {
  const page = "# How limits behave\n```sh\n# a comment\n```\n## `burst`, and why?\n## Try it\n## Try it\n";
  expect([...anchorsOf(page)]).toEqual(["how-limits-behave", "burst-and-why", "try-it", "try-it-1"]);
});

test("npm scripts are found with flags and in their short form", () => {
  const page = "`npm ci && npm run demo`, `npm run --silent proxyctl -- ARGS`, then `npm test`; npm runs it";
  expect(npmScriptsOf(page)).toEqual(["demo", "proxyctl", "test"]);
});
