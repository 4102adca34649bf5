/**
 * The manifests of "Bring your service" in docs/global-limits.md: those of examples/limit-services, which
 * test/e2e/limit-services.test.ts applies and sends requests to.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { repository } from "./markdown.ts";

const page = readFileSync(join(repository, "docs/global-limits.md"), "utf8").split(/^### /m);

interface Global {
  readonly [field: string]: unknown;
}

/** An object as far as these tests read it. */
interface Manifest {
  readonly kind: string;
  readonly spec: { readonly traffic?: { readonly rateLimit: { readonly global: Global } } };
}

/** Returns the blocks of YAML of a section. */
function blocksOf(heading: string): readonly string[] {
  const section = page.find((each) => each.startsWith(`${heading}\n`));
  if (section === undefined) throw new Error(`the page has no section ${heading}`);
  return [...section.matchAll(/^```yaml\n([^]*?)^```/gm)].map(([, block = ""]) => block);
}

const manifestsOf = (text: string): readonly Manifest[] =>
  parseAllDocuments(text).map((each) => each.toJS() as Manifest);

const manifestsIn = (...files: readonly string[]): readonly Manifest[] =>
  files.flatMap((file) => manifestsOf(readFileSync(join(repository, "examples", file), "utf8")));

/** The fields of the policy of the examples, with the changes for a service. */
function globalOf(service: string): Global {
  const policies = manifestsIn("kind/team.yaml", `limit-services/${service}/team-limits.yaml`);
  const fields = policies.map(({ spec }) => spec.traffic?.rateLimit.global ?? {});
  return Object.assign({}, ...fields) as Global;
}

test.each([
  ["envoyproxy/ratelimit", "envoyproxy"],
  ["Envoy Gateway's", "envoy-gateway"],
  ["Limitador", "limitador"],
])("%s: the fields of the policy are those of the example", (heading, service) => {
  const blocks = blocksOf(heading).filter((block) => block.startsWith("global:"));
  expect(blocks).toHaveLength(1);
  const { global } = parse(blocks[0] ?? "") as { readonly global: Global };
  const { descriptors = [], ...fields } = global;
  const example = globalOf(service);

  expect(example).toMatchObject(fields);
  expect(example["descriptors"]).toEqual(expect.arrayContaining(descriptors as unknown[]));
});

test.each([
  ["Connect to a service", "envoyproxy", ["ReferenceGrant"]],
  ["Envoy Gateway's", "envoy-gateway", ["Backend", "ReferenceGrant"]],
])("%s: the manifests are those of the example of %s", (heading, service, kinds) => {
  const blocks = blocksOf(heading).filter((block) => block.startsWith("apiVersion:"));
  const shown = blocks.flatMap(manifestsOf).filter(({ kind }) => kinds.includes(kind));

  expect(shown.map(({ kind }) => kind)).toEqual(kinds);
  expect(manifestsIn(`limit-services/${service}/service.yaml`)).toEqual(expect.arrayContaining(shown));
});

test("Beside each proxy: the limits of the chart are those of the examples, as in test/e2e/limit-sidecar.test.ts", () => {
  const [values = "", policy = ""] = blocksOf("Beside each proxy");
  const shown = parse(values) as { readonly rateLimitService: { readonly mode: string; readonly config: object } };
  const example = parse(readFileSync(join(repository, "examples/kind/values.yaml"), "utf8")) as {
    readonly rateLimitService: {
      readonly config: Readonly<Record<string, { readonly descriptors: readonly unknown[] }>>;
    };
  };
  const sidecar = readFileSync(join(repository, "test/e2e/limit-sidecar.test.ts"), "utf8");
  const { global } = parse(policy) as { readonly global: { readonly address: string; readonly domain: string } };

  expect(shown.rateLimitService.config).toEqual({
    "team.yaml": { domain: "team", descriptors: [example.rateLimitService.config["team.yaml"]?.descriptors[0]] },
  });
  expect(sidecar).toContain(`rateLimitService.mode=${shown.rateLimitService.mode}`);
  expect(sidecar).toContain(`address: "${global.address}"`);
  expect(sidecar).toContain(`domain: "${global.domain}"`);
});
