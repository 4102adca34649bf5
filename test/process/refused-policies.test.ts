/**
 * A policy that cannot be read, from a cold start: the setting, the readiness page, and the effect of a valid version.
 */
import { expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
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

const limit = (requests: string): string =>
  policyManifest("p", "kind: HTTPRoute, name: r", [`{ requests: ${requests}, unit: Hours }`]);

async function start(...args: readonly string[]) {
  const backend = await startBackend(respondWith(200));
  const port = await freePort();
  const base = manifests(
    gatewayManifest(port),
    backendManifest("b", backend.port),
    routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
  );
  const files = { "base.yaml": base, "policy.yaml": limit("many") };
  const proxy = await startProxy(files, args);
  const readinessPage = async (): Promise<string> => (await fetch(`${proxy.readiness}/healthz/ready`)).text();
  return { proxy, readinessPage, url: `http://127.0.0.1:${port}` };
}

const inForce = (line: Readonly<Record<string, unknown>>): boolean =>
  line["msg"] === "configuration in force" && line["generation"] === 2;

test("its target is closed until it can be read, and open from then on", async () => {
  const { proxy, readinessPage, url } = await start();
  expect((await fetch(url)).status).toBe(503);
  expect(await readinessPage()).toContain("ProxyPolicy default/p cannot be read; its targets respond with 503");
  await proxy.write("policy.yaml", limit("5"));
  await proxy.logged(inForce);
  expect((await fetch(url)).headers.get("x-ratelimit-remaining")).toBe("4");
  expect(await readinessPage()).not.toContain("cannot be read");
  await proxy.write("policy.yaml", limit("none"));
  await proxy.logged(({ msg }) => msg === "its previous valid version stays in use");
  expect((await fetch(url)).headers.get("x-ratelimit-remaining")).toBe("3");
});

test("its target is open from the start if the setting says so", async () => {
  const { readinessPage, url } = await start("--refused-policies", "Open");
  expect((await fetch(url)).status).toBe(200);
  expect(await readinessPage()).toContain("ProxyPolicy default/p cannot be read; its targets are not limited");
});
