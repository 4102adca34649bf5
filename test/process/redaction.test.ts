/**
 * Secrets of routes, requests and responses appear neither in the log of a proxy at trace nor in the output of
 * proxyctl.
 */
import { expect, test, vi } from "vitest";
import { proxyctl } from "../../proxyctl/src/testing/run.ts";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
} from "../support/gateway.ts";
import { freePort } from "../support/free-port.ts";
import { startProxy } from "../support/proxy-process.ts";
import { rawHttp } from "../support/raw-http.ts";

const marker = "MARK5f3a9c";
/** Has the form of a credential, whatever its name. */
const credential = `sk-proj-${marker}${marker}`;
const query = `token=${marker}&X-Amz-Signature=${marker}&next=https%3A%2F%2Fh%2F%3Fcode%3D${marker}`;
/** Within the values of other parameters. */
const inner = [
  `q=${encodeURIComponent(JSON.stringify({ n: 1, filter: [{ token: `${marker} ${marker}` }] }))}`,
  `q={%22password%22:%22${marker}%22}`,
  `q=token:${marker}&=token=${marker}`,
  `next=https:%5C%5Cu:${marker}@h/`,
].join("&");
const link = `https://u:${marker}@a.example/x?${query}&${inner}#access_token=${marker}`;

/** Secret by their names, which carry credentials in some API, or by their values. */
const secretFields: Readonly<Record<string, string>> = {
  authorization: `Bearer ${marker}`,
  cookie: `session=${marker}`,
  "x-api-key": marker,
  "x-amz-security-token": marker,
  "x-signature": marker,
  referer: link,
  "x-context": JSON.stringify({ user: "a", api_key: `${marker} ${marker}` }),
  "x-next": `https:\\\\u:${marker}@h/`,
  "user-agent": credential,
  "x-request-id": credential,
};

/** Rules with secrets in all possible places; the last goes to a port without a listener. */
const rules = [
  `
      matches: [{ path: { value: /matched }, headers: [{ name: x-api-key, value: "${marker}" }], queryParams: [{ name: token, value: "${marker}" }] }]
      filters:
        - { type: RequestHeaderModifier, requestHeaderModifier: { set: [{ name: authorization, value: "Bearer ${marker}" }, { name: x-hook, value: "${link}" }] } }
        - { type: ResponseHeaderModifier, responseHeaderModifier: { add: [{ name: x-auth, value: "${marker}" }] } }
        - { type: URLRewrite, urlRewrite: { path: { type: ReplaceFullPath, replaceFullPath: "/hook;token=${marker}" } } }
      backendRefs: [${backendRef("b")}]`,
  `{ matches: [{ path: { value: /away } }], backendRefs: [${backendRef("away")}] }`,
  `{ backendRefs: [${backendRef("b")}] }`,
].map((rule) => rule.trim());

/** With problems whose messages contain the value. */
const invalid = routeManifest("invalid", [
  `{ matches: [{ headers: [{ name: x-api-key, value: ["${marker}"] }] }], backendRefs: [${backendRef("b")}] }`,
  `{ filters: [{ type: RequestHeaderModifier, requestHeaderModifier: { set: [{ name: x-api-key, value: "${marker}\\n" }] } }], backendRefs: [${backendRef("b")}] }`,
  `{ filters: [{ type: RequestRedirect, requestRedirect: { statusCode: 999, hostname: "${link}" } }] }`,
]);
const invalidSecret = `
apiVersion: v1
kind: Secret
metadata: { name: s, namespace: default }
data: { apiKey: "${marker} is no base64" }
stringData: { password: ["${marker}"] }
`;

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

test("a value with the name or form of a secret is in no line of the log, and in no output of proxyctl", async () => {
  const backend = await startBackend((_request, response) =>
    response.writeHead(200, { location: link, "set-cookie": `a=${marker}`, "x-token": marker }).end("ok"),
  );
  const [port, adminPort] = [await freePort(), await freePort()];
  const key = "'request.headers[\"x-api-key\"]'";
  const all = manifests(
    gatewayManifest(port),
    backendManifest("b", backend.port),
    backendManifest("away", await freePort()),
    routeManifest("r", rules),
    policyManifest("limits", "kind: HTTPRoute, name: r", [`{ requests: 1, unit: Hours, key: ${key} }`]),
  );
  const admin = `127.0.0.1:${adminPort}`;
  const proxy = await startProxy({ "all.yaml": all }, [
    ...["--admin-address", admin, "--workers", "1", "--log-level", "trace"],
  ]);
  const url = `http://127.0.0.1:${port}`;
  const printed: string[] = [];
  const run = async (...args: string[]): Promise<string> => {
    const { stdout, stderr } = await proxyctl([...args, "--address", admin]);
    printed.push(stdout, stderr);
    return stdout;
  };

  const send = (path: string): Promise<Response> => fetch(`${url}${path}?${query}&${inner}`, { headers: secretFields });
  let trace = "";
  void run("trace").then((text) => (trace = text));
  // Whichever of the requests is the first after the trace began.
  await expect.poll(async () => (await send("/matched"), trace), { timeout: 30_000 }).toContain("Finished");
  const denied = await send("/matched");
  await run("limits", "explain", denied.headers.get("x-request-id") ?? "");
  for (const path of ["/away", `/open;token=${marker}`, `/${credential}`]) await (await send(path)).text();
  // Rejected before any rule matches.
  for (const head of [
    `GET /?${query} HTTP/1.1\r\nHost: ${credential}\r\nAuthorization: Bearer ${marker}\r\nContent-Length: x\r\n\r\n`,
    `CONNECT ${credential}:1 HTTP/1.1\r\nHost: a\r\nX-Api-Key: ${marker}\r\n\r\n`,
    `GET /%zz?${query}&${inner} HTTP/1.1\r\nHost: a\r\nX-Api-Key: ${marker}\r\nConnection: close\r\n\r\n`,
  ]) {
    await rawHttp(url, head);
  }
  await proxy.write("invalid.yaml", manifests(invalid, invalidSecret));
  await proxy.logged(({ msg }) => msg === "invalid configuration");

  await run("trace", "--port", String(port), "--", "-H", `x-api-key: ${marker}`, `http://a.example/matched?${query}`);
  for (const view of ["all", "routes", "backends", "policies"]) {
    expect(await run("config", view)).not.toBe("");
    for (const form of ["json", "yaml"]) expect((await run("config", view, "-o", form)).length).toBeGreaterThan(100);
  }
  expect(await run("limits", "top")).toContain("sha256:");
  for (const args of [["limits", "top", "-o", "json"], ["limits", "explain"], ["doctor"], ["logging"]]) {
    await run(...args);
  }

  const logged = proxy.log.map((line) => JSON.stringify(line));
  expect(logged.length).toBeGreaterThan(20);
  expect(logged.filter((line) => line.includes(marker))).toEqual([]);
  const lines = printed.flatMap((text) => text.split("\n"));
  expect(lines.filter((line) => line.includes(marker))).toEqual([]);
  expect(proxy.stderr()).not.toContain(marker);
});
