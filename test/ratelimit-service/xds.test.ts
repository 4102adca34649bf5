/** Limits by xDS, in a process with several workers, each of which reads them. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { response, startXdsServer } from "../../ratelimit-service/src/config/xds/testing/xds-server.ts";
import { connectRateLimit, descriptor, type RateLimitTestClient } from "../support/rate-limit-client.ts";
import { freePort } from "../support/free-port.ts";
import { startRateLimitService } from "../support/ratelimit-process.ts";

test.each(["1", "2"])(
  "with WORKERS=%s they apply from the first call, and follow each response",
  async (workers) => {
    const control = await startXdsServer();
    onTestFinished(() => control.close());
    const config = (requestsPerUnit: number) => ({
      name: "limits",
      domain: "d",
      descriptors: [{ key: "k", rateLimit: { unit: "YEAR", requestsPerUnit } as const }],
    });
    void control.streams.next().then((stream) => {
      stream.write(response("1", config(3)));
      void control.requests.next();
      return control.requests.next().then(() => control.streams.put(stream));
    });
    const service = await startRateLimitService(undefined, {
      WORKERS: workers,
      CONFIG_TYPE: "GRPC_XDS_SOTW",
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${control.port}`,
    });
    onTestFinished(() => service.kill());
    // Connections are spread over the workers.
    const clients = Array.from({ length: 8 }, () => connectRateLimit(service.grpcPort));
    onTestFinished(() => clients.forEach((client) => client.close()));
    expect(await limitsOf(clients, "d")).toEqual([3]);
    (await control.streams.next()).write(response("2", config(5)));
    await expect.poll(() => limitsOf(clients, "d")).toEqual([5]);
  },
  60_000,
);

/** An environment for the control plane on the port. */
const xdsAt = (port: number) => ({ CONFIG_TYPE: "GRPC_XDS_SOTW", CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${port}` });

/** A folder with one file that limits `k` in the domain. */
function folderOf(domain: string, requestsPerUnit: number): string {
  const folder = mkdtempSync(join(tmpdir(), "limits-"));
  onTestFinished(() => {
    rmSync(folder, { recursive: true });
  });
  const limits = `rate_limit: { unit: year, requests_per_unit: ${requestsPerUnit} }`;
  writeFileSync(join(folder, "mine.yaml"), `domain: ${domain}\ndescriptors: [{ key: k, ${limits} }]\n`);
  return folder;
}

/** The limit of `k` in the domain as `clients` get it, or the error. */
async function limitsOf(clients: readonly RateLimitTestClient[], domain: string): Promise<readonly unknown[]> {
  const call = { domain, descriptors: [{ ...descriptor("k=v"), hitsAddend: { value: "0" } }] };
  const outcomes = await Promise.all(clients.map((client) => client.outcome(call)));
  return [
    ...new Set(
      outcomes.map((outcome) =>
        "details" in outcome ? outcome.details : outcome.statuses[0]?.currentLimit?.requestsPerUnit,
      ),
    ),
  ];
}

test.each(["1", "2"])(
  "with WORKERS=%s files are served beside an xDS server",
  async (workers) => {
    const control = await startXdsServer();
    onTestFinished(() => control.close());
    const limit = (name: string, requestsPerUnit: number) => ({
      name,
      domain: name,
      descriptors: [{ key: "k", rateLimit: { unit: "YEAR", requestsPerUnit } as const }],
    });
    const stream = control.streams.next();
    void stream.then((opened) => opened.write(response("1", limit("theirs", 3), limit("mine", 4))));
    const service = await startRateLimitService(folderOf("mine", 5), { WORKERS: workers, ...xdsAt(control.port) });
    onTestFinished(() => service.kill());
    const clients = Array.from({ length: 8 }, () => connectRateLimit(service.grpcPort));
    onTestFinished(() => clients.forEach((client) => client.close()));
    expect(await limitsOf(clients, "theirs")).toEqual([3]);
    expect(await limitsOf(clients, "mine")).toEqual([5]);
    expect(service.output.join("\n")).toContain("duplicate domain 'mine' in xDS resource");

    (await stream).write(response("2", limit("theirs", 6)));
    await expect.poll(() => limitsOf(clients, "theirs")).toEqual([6]);
    expect(await limitsOf(clients, "mine")).toEqual([5]);
  },
  60_000,
);

test("files are served while the xDS server is unavailable, and calls for other domains fail", async () => {
  const folder = folderOf("mine", 5);
  const port = await freePort();
  const service = await startRateLimitService(folder, { FORCE_START_WITHOUT_INITIAL_CONFIG: "true", ...xdsAt(port) });
  onTestFinished(() => service.kill());
  const client = connectRateLimit(service.grpcPort);
  onTestFinished(() => client.close());
  await expect.poll(() => limitsOf([client], "mine")).toEqual([5]);
  expect(await limitsOf([client], "theirs")).toEqual(["no rate limit configuration loaded from the xDS server"]);
}, 60_000);
