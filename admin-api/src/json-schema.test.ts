import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { renderConfigDumpSchema } from "./json-schema.ts";

const file = fileURLToPath(new URL("../../docs/config-dump.schema.json", import.meta.url));

test("docs/config-dump.schema.json matches the types (`npx vitest -u` writes it)", async () => {
  await expect(renderConfigDumpSchema()).toMatchFileSnapshot(file);
});
