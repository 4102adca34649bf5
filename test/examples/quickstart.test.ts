import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseManifests } from "../../proxy/src/api/parse-manifests.ts";
import { translate } from "../../proxy/src/translate/translate.ts";
import { expect, test } from "vitest";

const folder = join(import.meta.dirname, "../../examples/quickstart");
const files = readdirSync(folder).filter((file) => file.endsWith(".yaml"));

test("the quickstart's manifests are accepted without a problem, and configure what its page says", () => {
  const parsed = parseManifests(files.map((path) => ({ path, text: readFileSync(join(folder, path), "utf8") })));
  expect(parsed.problems).toEqual([]);
  const { binds, backends, problems } = translate(parsed.resources);
  expect(problems).toEqual([]);
  expect(binds).toMatchObject([{ address: "127.0.0.1", port: 8080 }]);
  const rule = binds[0]?.listeners[0]?.routes[0]?.rules[0];
  expect(rule?.limits).toMatchObject([
    { counts: "requests", amount: 10, burst: 5, unit: "Minutes" },
    { counts: "tokens", amount: 1000, burst: 0, unit: "Minutes" },
  ]);
  expect(backends).toMatchObject([
    { key: "Backend/default/llm", endpoints: [{ host: "127.0.0.1", port: 8089 }], ai: { provider: "openai" } },
  ]);
  expect(backends[0]).not.toHaveProperty("tls");
});
