/** Validation of manifests in an editor by the schemas in deploy/schemas, in comparison with the parser. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import * as z from "zod";
import { parseResource } from "../../proxy/src/api/parse-resource.ts";

const repository = join(import.meta.dirname, "..", "..");

const examples = globSync("examples/{kind,quickstart,global}/*.yaml", { cwd: repository }).flatMap((path) =>
  parseAllDocuments(readFileSync(join(repository, path), "utf8")).map((document) => ({
    path,
    // Any YAML; validated below.
    manifest: document.toJS() as { readonly kind: string; readonly spec: object } | null,
  })),
);

describe.each(["ProxyPolicy", "Backend"])("the editor's schema of %s", (kind) => {
  const text = readFileSync(join(repository, "deploy", "schemas", `${kind.toLowerCase()}_v1alpha1.json`), "utf8");
  const schema = z.fromJSONSchema(JSON.parse(text) as z.core.JSONSchema.BaseSchema);
  const own = examples.flatMap(({ path, manifest }) => (manifest?.kind === kind ? [{ path, manifest }] : []));

  test("has examples to validate", () => {
    expect(own.length).toBeGreaterThan(1);
  });

  test.each(own)("accepts the manifest in $path", ({ manifest }) => {
    expect(schema.safeParse(manifest).error).toBeUndefined();
  });

  test.each([
    ["a field that does not exist", { novelty: 1 }],
    ["a part of the wrong type", { targetRefs: "all", static: "somewhere" }],
  ])("rejects %s, like the parser", (_, invalidFields) => {
    const manifest = { ...own[0]?.manifest, spec: { ...own[0]?.manifest.spec, ...invalidFields } };
    expect(schema.safeParse(manifest).success).toBe(false);
    expect(parseResource(manifest).kind).toBe("rejected");
  });
});
