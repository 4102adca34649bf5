/**
 * However a body is spelled, the model that a lenient provider reads is the one for which the gateway has chosen the
 * rule and the backend, or the provider does not get the request.
 */
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { backendRef, gatewayManifest, manifests, routeManifest, startGateway } from "../support/gateway.ts";
import { startLenientProvider } from "../support/lenient-provider.ts";

/** Three providers: by a rule for `dear`, by a rule for the rest, and by a list. */
async function start() {
  const [dear, rest, listed] = await Promise.all([
    startLenientProvider(),
    startLenientProvider(),
    startLenientProvider(),
  ]);
  const backend = (name: string, { port }: { readonly port: number }, models = "") => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ${name}, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${port}, ${models} } }
`;
  const under = (path: string, more = "") => `matches: [{ path: { type: PathPrefix, value: ${path} }, ${more} }]`;
  const header = "headers: [{ name: x-gateway-model, value: dear }]";
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backend("dear", dear),
      backend("rest", rest),
      backend("listed", listed, "models: [{ name: dear, as: Dear-1 }, { name: cheap }]"),
      routeManifest("chat", [
        `{ ${under("/v1", header)}, backendRefs: [${backendRef("dear")}] }`,
        `{ ${under("/v1")}, backendRefs: [${backendRef("rest")}] }`,
        `{ ${under("/api")}, backendRefs: [${backendRef("listed")}] }`,
      ]),
    ),
  );
  return { url: gateway.url(), dear: dear.served, rest: rest.served, listed: listed.served };
}

const name = fc.constantFrom(
  "model",
  "Model",
  "MODEL",
  String.raw`m\u006fdel`,
  String.raw`model\u0000`,
  "mode1",
  "models",
);
const value = fc.constantFrom(
  '"dear"',
  '"cheap"',
  String.raw`"d\u0065ar"`,
  '"Dear"',
  '"dear "',
  "null",
  "1",
  '["dear"]',
  "{}",
);
const member = fc
  .tuple(name, value, fc.constantFrom("", " ", "\t\n", "/**/"))
  .map(([key, text, space]) => `"${key}"${space}:${space}${text}`);
const object = fc
  .tuple(fc.array(member, { minLength: 1, maxLength: 3 }), fc.constantFrom("", '"messages":[{"model":"dear"}]'))
  .map(([members, more]) => `{${[...members, ...(more === "" ? [] : [more])].join(",")}}`);
const text = fc
  .tuple(
    fc.constantFrom("", "", "", " ", "\uFEFF", "\n\n", "//\n", "[1]"),
    object,
    fc.constantFrom("", "", "", " ", ",", "{}", "\0"),
  )
  .map((parts) => parts.join(""));
const encoding = fc.constantFrom("utf8", "utf8", "utf8", "utf16le", "utf16be", "gzip", "unlabelled gzip");
const path = fc.constantFrom("/chat/completions", "/completions", "/CHAT/completions", "/embeddings", "/invocations");

function encoded(body: string, how: string): Buffer {
  const utf16 = Buffer.from(body, "utf16le");
  if (how === "utf16le") return utf16;
  if (how === "utf16be") return utf16.swap16();
  return how.endsWith("gzip") ? gzipSync(body) : Buffer.from(body);
}

/** Plain requests, which are served. */
const plain = ['{"model":"dear"}', '{"model":"cheap"}'];
const sent = (body: string, prefix: string): [string, string, string, string] => [body, "utf8", "/completions", prefix];

test("no spelling of a body gets a model past its rule or its list", async () => {
  const { url, dear, rest, listed } = await start();
  await fc.assert(
    fc.asyncProperty(text, encoding, path, fc.constantFrom("/v1", "/api/v1"), async (body, how, end, prefix) => {
      const headers = { "x-gateway-model": "dear", ...(how === "gzip" && { "content-encoding": "gzip" }) };
      await (await fetch(`${url}${prefix}${end}`, { method: "POST", headers, body: encoded(body, how) })).text();
    }),
    { numRuns: 400, examples: ["/v1", "/api/v1"].flatMap((prefix) => plain.map((body) => sent(body, prefix))) },
  );
  const modelsOf = (served: readonly { readonly model: unknown }[]) => [...new Set(served.map(({ model }) => model))];
  // A provider that does not fold names reads no model where the gateway has found `Model`.
  expect(modelsOf(dear).filter((model) => model !== undefined)).toEqual(["dear"]);
  expect(modelsOf(rest)).toContain("cheap");
  expect(modelsOf(rest)).not.toContain("dear");
  expect(modelsOf(listed).toSorted()).toEqual(["Dear-1", "cheap"]);
});
