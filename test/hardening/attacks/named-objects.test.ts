/**
 * A tenant's Gateways refer to 128,000 Secrets, each with a watch of its own. The controller uses a bounded amount of
 * memory for them, stays responsive, and writes the status of a Gateway of another tenant.
 */
import { expect, test } from "vitest";
import type { KubeObject } from "../../../proxy/src/kube/object.ts";
import { startObjectApiServer } from "../../support/object-api-server.ts";
import { programFile } from "../../support/program-file.ts";
import { times } from "../support/tenant-objects.ts";
import { startWatched } from "../support/watched-process.ts";
import { gatewayApi } from "../../support/api-versions.ts";

const maxHeldMs = 100;
/** Of the Gateways themselves, with 64 listeners each, and of the references: 123 to 145 MiB were measured. */
const maxGrowthBytes = 160 * 1024 * 1024;
const gateways = `/apis/${gatewayApi}/gateways`;
const http = { name: "http", port: 80, protocol: "HTTP" };

function gateway(namespace: string, name: string, listeners: readonly object[]): KubeObject {
  const spec = { gatewayClassName: "gateway-proxy", listeners };
  return { apiVersion: gatewayApi, kind: "Gateway", metadata: { name, namespace }, spec };
}

/** A Gateway that refers to 256 Secrets, which are as many as one may. */
function referringGateway(index: number): KubeObject {
  const listeners = times(64, (at) => ({
    ...{ name: `l${at}`, port: 443, hostname: `h${at}.test`, protocol: "HTTPS" },
    tls: { certificateRefs: times(4, (ref) => ({ name: `s-${index}-${at}-${ref}` })) },
  }));
  return gateway("crowd", `g${index}`, listeners);
}

test("500 Gateways with 256 Secrets each", async () => {
  const api = await startObjectApiServer();
  api.put(`/apis/${gatewayApi}/gatewayclasses`, {
    ...{ apiVersion: gatewayApi, kind: "GatewayClass", metadata: { name: "gateway-proxy" } },
    spec: { controllerName: "gatewayproxy.dev/controller" },
  });
  const controller = await startWatched({
    main: programFile("proxy", "controller"),
    args: ["--proxy-image", "test/proxy:1", "--namespace", "system", "--identity", "one"],
    env: { KUBECONFIG: api.kubeconfig },
    threads: 1,
  });
  /** Resolves when a new Gateway of another namespace has a status. */
  const served = async (name: string): Promise<void> => {
    api.put(gateways, gateway("other", name, [http]));
    const status = () => JSON.stringify(api.get(gateways, "other", name)?.["status"] ?? "");
    await expect.poll(status, { timeout: 120_000 }).toContain("Programmed");
  };
  await served("before");
  const before = await controller.heapBytes();
  await controller.longestHeldMs();
  for (const each of times(500, referringGateway)) {
    api.put(gateways, each);
    // The controller reads during the loop.
    await new Promise((resolve) => setImmediate(resolve));
  }
  await served("after");
  expect(controller.hasEnded(), controller.output()).toBe(false);
  expect(await controller.longestHeldMs()).toBeLessThan(maxHeldMs);
  // Statuses of the other Gateways are still being written, from a plan that is in memory until then.
  const growth = async (): Promise<number> => (await controller.heapBytes()) - before;
  await expect.poll(growth, { timeout: 240_000, interval: 1_000 }).toBeLessThan(maxGrowthBytes);
}, 420_000);
