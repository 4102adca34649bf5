/** `proxyctl doctor` identifies the rate limit services that a proxy calls, by their responses. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, afterAll, expect, onTestFinished, test, vi } from "vitest";
import { proxyctl } from "../../proxyctl/src/testing/run.ts";
import { describeWith } from "../support/describe-with.ts";
import { startBackend } from "../support/backend.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../support/gateway.ts";
import { byAddress, globalPolicy } from "../support/global-policy.ts";
import { freePort } from "../support/free-port.ts";
import { startProxy } from "../support/proxy-process.ts";
import { type Script, startScriptedService } from "../support/rate-limit-service.ts";
import { startInProcess } from "../support/ratelimit-in-process.ts";
import { startRateLimitService, startReference } from "../support/ratelimit-process.ts";
import { startRedis } from "../support/redis-server.ts";

vi.setConfig({ testTimeout: 90_000 });

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "doctor-"));
  await mkdir(join(folder, "config"));
  await writeFile(
    join(folder, "config", "limits.yaml"),
    "domain: chat\ndescriptors: [{ key: remote_address, rate_limit: { unit: day, requests_per_unit: 9 } }]\n",
  );
});
afterAll(() => rm(folder, { recursive: true }));

/** The report of doctor on a service at the port, after one request that calls it. */
async function doctorOf(servicePort: number): Promise<string> {
  const backend = await startBackend();
  const [port, adminPort] = [await freePort(), await freePort()];
  const all = manifests(
    gatewayManifest(port),
    backendManifest("app", backend.port),
    routeManifest("chat", [`{ backendRefs: [${backendRef("app")}] }`]),
    globalPolicy(`address: "127.0.0.1:${servicePort}", timeout: 5s, ${byAddress}`),
  );
  await startProxy({ "all.yaml": all }, ["--admin-address", `127.0.0.1:${adminPort}`, "--workers", "2"]);
  await (await fetch(`http://127.0.0.1:${port}/`)).text();
  const { stdout } = await proxyctl(["doctor", "--address", `127.0.0.1:${adminPort}`]);
  return /^.*rate limit services[\s\S]*/m.exec(stdout)?.[0] ?? stdout;
}

test.each([
  ["our own", () => startRateLimitService(join(folder, "config"))],
  ["the reference's", () => startInProcess({ BACKEND_TYPE: "memory", RUNTIME_ROOT: folder })],
])("the bundled service with %s defaults, by its name and version", async (_, start) => {
  const service = await start();
  if ("kill" in service) onTestFinished(() => service.kill());
  expect(await doctorOf(service.grpcPort)).toMatch(
    /^ok +rate limit services +1, all available: address\/127\.0\.0\.1:\d+ is the service of this project \d+\.\d+\.\d+\n$/,
  );
});

const allow: Script = () => ({ overallCode: "OK", statuses: [{ code: "OK" }] });

test("an unknown service", async () => {
  const service = await startScriptedService(allow);
  const report = await doctorOf(service.port);

  expect(report).toContain("is an unknown program\n");
  expect(report).toContain("→ try zero-hit checks, refunds");
  // Only the request itself was counted.
  expect(service.calls).toHaveLength(1);
});

test("Limitador, by the service that it lists, with its missing features", async () => {
  const services = ["grpc.reflection.v1.ServerReflection", "kuadrant.service.ratelimit.v1.RateLimitService"];
  const service = await startScriptedService(allow, 0, services);
  const report = await doctorOf(service.port);

  expect(report).toContain(" is Limitador\n");
  expect(report).toContain("Limitador needs hitsMode: Kuadrant; Limitador takes no refunds");
  expect(service.calls).toHaveLength(1);
});

describeWith(["redis-server", "ratelimit"], "envoyproxy/ratelimit", (paths) => {
  test("by its health service, with its missing features", async () => {
    const redis = await startRedis(paths["redis-server"]);
    onTestFinished(() => redis.close());
    const reference = await startReference(paths.ratelimit, folder, { REDIS_URL: `127.0.0.1:${redis.port}` });
    onTestFinished(() => reference.kill());
    const report = await doctorOf(reference.grpcPort);

    expect(report).toContain(" is envoyproxy/ratelimit\n");
    expect(report).toContain("counts a refund as one more hit");
  });
});
