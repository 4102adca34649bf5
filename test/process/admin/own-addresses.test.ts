/**
 * The servers for the operator cannot be reached through the proxy: a route whose backend is the admin server would
 * make every client of the listener an operator.
 */
import { hostname, networkInterfaces } from "node:os";
import { expect, test, vi } from "vitest";
import { sendToAdmin } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../../support/gateway.ts";
import { freePort } from "../../support/free-port.ts";
import { spawnProxy, startProxy } from "../../support/proxy-process.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

/** Spellings of the loopback and the unspecified address that a manifest may contain. */
const loopback = ["127.0.0.1", "127.0.0.2", "0.0.0.0", "127.1", "2130706433", "0x7f.1", "localhost", "::1", "::"];

/** The addresses of this machine's interfaces. They change: a bridge of containers has one while it exists. */
function machineAddresses(): readonly string[] {
  const interfaces = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  return interfaces.filter(({ scopeid }) => !scopeid).map(({ address }) => address);
}

/** One route per target, by its path; with the Host that the admin server's guard would accept. */
function routesTo(targets: readonly { readonly host: string; readonly port: number }[]): string {
  const rewrite =
    "{ type: URLRewrite, urlRewrite: { hostname: localhost, path: { type: ReplacePrefixMatch, replacePrefixMatch: / } } }";
  return manifests(
    ...targets.map(
      ({ host, port }, at) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: t${at}, namespace: default }
spec: { static: { host: "${host}", port: ${port} } }
`,
    ),
    ...targets.map((_, at) =>
      routeManifest(`t${at}`, [
        `{ matches: [{ path: { value: /t${at} } }], filters: [${rewrite}], backendRefs: [${backendRef(`t${at}`)}] }`,
      ]),
    ),
  );
}

test("no spelling of a backend reaches the admin server, the metrics or the readiness page", async () => {
  const backend = await startBackend();
  const [port, admin, stats, readiness] = [await freePort(), await freePort(), await freePort(), await freePort()];
  const hosts = new Set([...loopback, hostname(), ...machineAddresses()]);
  const targets = [admin, stats, readiness].flatMap((own) => [...hosts].map((host) => ({ host, port: own })));
  const all = manifests(
    gatewayManifest(port),
    backendManifest("b", backend.port),
    routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
    routesTo(targets),
  );
  const proxy = await startProxy({ "all.yaml": all }, [
    ...["--admin-address", `127.0.0.1:${admin}`, "--stats-address", `:${stats}`],
    ...["--readiness-address", `127.0.0.1:${readiness}`, "--workers", "1"],
  ]);
  const url = `http://127.0.0.1:${port}`;
  // In file mode a backend on loopback is allowed.
  expect((await fetch(url)).status).toBe(200);
  for (const [at, target] of targets.entries()) {
    for (const [path, method] of [
      ["config_dump", "GET"],
      ["quitquitquit", "POST"],
      ["metrics", "GET"],
      ["healthz/ready", "GET"],
    ]) {
      const response = await fetch(`${url}/t${at}/${path ?? ""}`, { method: method ?? "GET" });
      const body = await response.text();
      // The host name of this machine may have no address, and an interface may have lost its own meanwhile.
      const isOwn = loopback.includes(target.host) || machineAddresses().includes(target.host);
      expect([500, ...(isOwn ? [] : [503])], `${target.host}:${target.port}/${path ?? ""}`).toContain(response.status);
      expect(body).not.toContain(String(target.port));
    }
  }
  expect((await sendToAdmin(`http://127.0.0.1:${admin}/logging`)).status).toBe(200);
  const reported = proxy.log.filter(({ problem }) =>
    String(problem).includes("is an address at which the proxy serves its operator"),
  );
  expect(reported.length).toBeGreaterThan(0);
});

test("its own addresses cannot be allowed", async () => {
  const admin = await freePort();
  const args = ["--admin-address", `127.0.0.1:${admin}`, "--allow-backend-address", `127.0.0.1:8081,[::1]:${admin}`];
  const proxy = await spawnProxy({ "a.yaml": gatewayManifest(await freePort()) }, args);
  expect(await proxy.exited).not.toBe(0);
  expect(proxy.stderr()).toMatch(/--allow-backend-address.*serves its operator/s);
});
