/** Spellings of a path that servers read differently: none of them evades a rule or a limit. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaultPathRules, type PathRules } from "../../proxy/src/routing/path-rules.ts";
import { defaultRequestRules } from "../../proxy/src/listen/request-head.ts";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

const policy = policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 1, unit: Hours, key: request.path }"]);

/** The rule `guard` matches `/admin` and `/exact/secret`, the rule `open` all other paths. */
async function start(path: Partial<PathRules> = {}, ...more: readonly string[]) {
  const backend = await startBackend();
  const refs = `backendRefs: [${backendRef("b")}]`;
  const guarded =
    "matches: [{ path: { type: PathPrefix, value: /admin } }, { path: { type: Exact, value: /exact/secret } }]";
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", backend.port),
      routeManifest("r", [`{ name: guard, ${guarded}, ${refs} }`, `{ name: open, ${refs} }`]),
      ...more,
    ),
    { requestRules: { ...defaultRequestRules, path: { ...defaultPathRules, ...path } } },
  );
  /** The rule that matched, with the path that the backend received, or the status of a local reply. */
  const send = async (target: string): Promise<string> => {
    const { status } = await rawHttp(gateway.url(), `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
    const rule = gateway.records.at(-1)?.rule?.split("/").at(-1) ?? "";
    return status === 200 ? `${rule} ${backend.requests.at(-1)?.url ?? ""}` : String(status);
  };
  return { gateway, backend, send };
}

describe("by default", () => {
  test.each([
    ["/%2fadmin", "400"],
    ["/admin%2Fx", "400"],
    ["/exact%2fsecret", "400"],
    ["/admin;x", "400"],
    ["/;/admin", "400"],
    ["/admin%3bx", "400"],
    ["/admin\\x", "400"],
    ["/admin%5Cx", "400"],
    ["/%c0%afadmin", "400"],
    ["/%61dmin", "guard /admin"],
    ["/admin/a%2Fb", "guard /admin/a%2Fb"],
    ["/@scope%2fpackage", "open /@scope%2Fpackage"],
    ["/api/group%2Fproject;v=1", "open /api/group%2Fproject;v=1"],
    ["/users/ann%40example.com", "open /users/ann@example.com"],
  ])("%s: %s", async (target, outcome) => {
    const { send } = await start();
    expect(await send(target)).toBe(outcome);
  });

  test.each(["/a%2Fb", "/a;x", "/a;y/b"])("a limit by path counts other spellings together: %s", async (target) => {
    const { send } = await start({}, policy);
    expect(await send(target)).toBe("400");
    expect(await send("/a%61")).toBe("open /aa");
    expect(await send("//aa")).toBe("429");
  });
});

test.each<[Partial<PathRules>, string, string]>([
  [{ escapedSlashes: "keep" }, "/%2fadmin", "open /%2Fadmin"],
  [{ escapedSlashes: "reject" }, "/api/a%2Fb", "400"],
  [{ escapedSlashes: "decode" }, "/%2fadmin%2Fx", "guard /admin/x"],
  [{ pathParameters: "keep" }, "/admin;x", "open /admin;x"],
  [{ pathParameters: "strip" }, "/;/admin;a=1/x;", "guard /admin/x"],
  [{ backslashes: "convert" }, "/admin\\x", "guard /admin/x"],
  [{ pathCase: "lower" }, "/ADMIN/X?Q", "guard /admin/x?Q"],
  [{ repeatedSlashes: "keep" }, "/a//b", "open /a//b"],
])("%j: %s is %s", async (path, target, outcome) => {
  const { send } = await start(path);
  expect(await send(target)).toBe(outcome);
});

/** How a server may read a path, by the order of its steps. */
const readers: Readonly<Record<string, (path: string) => string>> = {
  plain: (path) => path,
  decoding: (path) => decodeEscapes(path),
  servlet: (path) => decodeEscapes(withoutParameters(path)),
  "decoding, then servlet": (path) => withoutParameters(decodeEscapes(path)),
};

function decodeEscapes(path: string): string {
  return path
    .replace(/%(..)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replaceAll("\\", "/");
}

function withoutParameters(path: string): string {
  return path.replace(/;[^/]*/g, "");
}

function ruleOf(path: string): string {
  const merged = path.replace(/\/+/g, "/");
  return merged === "/admin" || merged.startsWith("/admin/") || merged === "/exact/secret" ? "guard" : "open";
}

test.each<Partial<PathRules>>([
  {},
  { escapedSlashes: "reject", pathParameters: "reject" },
  { escapedSlashes: "decode", pathParameters: "reject", backslashes: "convert" },
])("for every spelling and server, the rule is that of the path that the server reads (%j)", async (path) => {
  const { send } = await start(path);
  const piece = fc.constantFrom(
    "/",
    "%2f",
    "%2F",
    "%5c",
    "\\",
    ";",
    ";x=1",
    "%3B",
    ".",
    "..",
    "%2e",
    "admin",
    "%61dmin",
    "exact",
    "secret",
    "x",
  );
  let passed = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 6 }), async (pieces) => {
      const outcome = await send(`/${pieces.join("")}`);
      if (outcome === "400") return;
      const [rule, received = ""] = outcome.split(" ");
      passed++;
      for (const [reader, read] of Object.entries(readers)) {
        expect(`${reader}: ${ruleOf(read(received))}`).toBe(`${reader}: ${rule}`);
      }
    }),
    { numRuns: 150 },
  );
  expect(passed).toBeGreaterThan(10);
});
