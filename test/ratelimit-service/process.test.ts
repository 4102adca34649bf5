/** The service as users run it: the command line, the defaults, and the shutdown. */
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readProfile } from "@gatewayproxy/runtime/testing/read-profile";
import { describe, expect, onTestFinished, test } from "vitest";
import { freePort } from "../support/free-port.ts";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { type Environment, spawnRateLimitService, startRateLimitService } from "../support/ratelimit-process.ts";

const example = fileURLToPath(new URL("../../examples/ratelimit/config", import.meta.url));

/** Starts the service with a folder; it is stopped with the test. */
async function start(env: Environment = {}, directory = example) {
  const service = await startRateLimitService(directory, env);
  onTestFinished(() => service.kill());
  const client = connectRateLimit(service.grpcPort);
  onTestFinished(() => client.close());
  return { ...service, client };
}

/** The output and the exit code of a command. */
async function run(args: readonly string[], env: Environment = {}) {
  const child = spawnRateLimitService(args, env);
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk: Buffer) => (text += chunk.toString()));
  const [code] = (await once(child, "close")) as [number];
  return { code, text };
}

async function folderOf(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "ratelimit-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await Promise.all(Object.entries(files).map(([name, text]) => writeFile(join(folder, name), text)));
  return folder;
}

const client1 = descriptor("remote_address=198.51.100.1");

describe("the command line", () => {
  test("--help lists every setting, --version the version", async () => {
    const help = await run(["--help"]);
    const version = await run(["--version"]);

    expect(help).toMatchObject({ code: 0 });
    expect(help.text).toMatch(/GRPC_MAX_CONNECTION_AGE[\s\S]*REDIS_URL[\s\S]*STATSD_PROTOCOL/);
    expect(version).toMatchObject({ code: 0, text: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) as string });
  });

  test("--check-config accepts a valid folder and reports all problems of an invalid one", async () => {
    const bad = await folderOf({
      "a.yaml": "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: foo}\n",
      "b.yaml": "domain: ''\n",
    });

    expect(await run(["--check-config", example])).toMatchObject({ code: 0 });
    const checked = await run(["--check-config", bad]);
    expect(checked.code).toBe(1);
    expect(checked.text).toContain("a.yaml: invalid rate limit unit 'foo'");
    expect(checked.text).toContain("b.yaml: config file cannot have empty domain");
  });

  test("reports every invalid setting at once", async () => {
    const { code, text } = await run([], { PORT: "x", WORKERS: "0", LOG_FORMAT: "xml" });

    expect(code).toBe(64);
    for (const name of ["PORT", "WORKERS", "LOG_FORMAT"]) expect(text).toContain(`${name}: `);
  });

  test.each(["PORT", "GRPC_PORT", "DEBUG_PORT"])("names the setting of a port in use: %s", async (setting) => {
    const other = createServer().listen(0, "127.0.0.1");
    onTestFinished(() => void other.close());
    await once(other, "listening");
    const address = other.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const free = { HOST: "127.0.0.1", GRPC_HOST: "127.0.0.1", PORT: "0", GRPC_PORT: "0", DEBUG_PORT: "0" };
    const { code, text } = await run(["--config-dir", example], {
      ...free,
      SHUTDOWN_DRAIN_DELAY: "0",
      [setting]: String(port),
    });

    expect(code).toBe(1);
    expect(text).toMatch(new RegExp(`cannot start:\\s+${setting}: the port is taken by another process .*${port}`));
  });

  test("names every port in use at once, and every invalid setting", async () => {
    const other = await start();
    const [grpc, http, debug] = [other.grpcPort, new URL(other.http).port, new URL(other.debug).port];
    const ports = { PORT: http, GRPC_PORT: String(grpc), DEBUG_PORT: debug };
    const local = { HOST: "127.0.0.1", GRPC_HOST: "127.0.0.1", WORKERS: "1", SHUTDOWN_DRAIN_DELAY: "0" };
    const taken = await run(["--config-dir", example], { ...local, ...ports });
    expect(taken.code).toBe(1);
    for (const name of Object.keys(ports)) {
      expect(taken.text).toContain(`  ${name}: the port is taken by another process`);
    }
    const wrong = await run([], { LOG_LEVEL: "loud", WORKERS: "0" });
    expect(wrong.code).toBe(64);
    for (const name of ["LOG_LEVEL", "WORKERS"]) expect(wrong.text).toContain(`${name}: `);
  }, 60_000);
});

describe("without settings", () => {
  test("limits by the example's rules in memory, with the headers that a proxy forwards", async () => {
    const { client } = await start();
    const responses = [];
    for (let call = 0; call < 11; call++) responses.push(await client.send({ domain: "chat", descriptors: [client1] }));
    const last = responses.at(-1);

    expect(responses.map(({ overallCode }) => overallCode)).toEqual([...Array<string>(10).fill("OK"), "OVER_LIMIT"]);
    expect(last?.responseHeadersToAdd.map(({ key, value }) => `${key}: ${value}`)).toEqual([
      "x-envoy-ratelimited: true",
      "x-ratelimit-limit: 10, 10;w=60",
      "x-ratelimit-remaining: 0",
      expect.stringMatching(/^x-ratelimit-reset: [1-5]?\d|60$/),
    ]);
  });

  test("responds alike over /json, on the same counters", async () => {
    const { client, http } = await start();
    const call = { domain: "chat", descriptors: [client1] };
    for (let count = 0; count < 10; count++) await client.send(call);
    const response = await fetch(`${http}/json`, { method: "POST", body: JSON.stringify(call) });

    expect(response.status).toBe(429);
    expect(await response.json()).toMatchObject({ overallCode: "OVER_LIMIT" });
  });

  test("counts an override by the week if its unit is the number of a week in responses", async () => {
    const { client } = await start();
    // The enum of overrides has no such name; protobufjs passes numbers through.
    const limit = { requestsPerUnit: 1, unit: 7 as never };
    const call = { domain: "chat", descriptors: [{ ...descriptor("any=thing"), limit }] };

    expect(await client.send(call)).toMatchObject({
      overallCode: "OK",
      statuses: [{ currentLimit: { requestsPerUnit: 1, unit: "WEEK" } }],
    });
    expect(await client.send(call)).toMatchObject({ overallCode: "OVER_LIMIT" });
  });

  test("is healthy, and shows operators limits, counters and metrics", async () => {
    const { client, http, debug } = await start();
    await client.send({ domain: "chat", descriptors: [client1] });
    const text = async (url: string) => (await fetch(url)).text();

    expect(await client.health("ratelimit")).toBe("SERVING");
    expect(await text(`${http}/healthcheck`)).toBe("OK");
    expect(await text(`${debug}/rlconfig`)).toContain("chat.remote_address: unit=MINUTE requests_per_unit=10");
    expect(await text(`${debug}/counters`)).toMatch(/chat_remote%5Faddress_198\.51\.100\.1_\d+/);
    expect(await text(`${debug}/stats`)).toContain("ratelimit.service.rate_limit.chat.remote_address.total_hits: 1\n");
    expect(await text(`${debug}/metrics`)).toContain(
      'ratelimit_service_rate_limit_total_hits{domain="chat",key1="remote_address"} 1\n',
    );
    expect(await text(`${debug}/metrics`)).toContain("process_resident_memory_bytes");
  });

  test("serves metrics on request, and none if they are disabled", async () => {
    const port = await freePort();
    await start({ USE_PROMETHEUS: "true", PROMETHEUS_ADDR: `127.0.0.1:${port}`, EXTRA_TAGS: "zone:a" });
    const disabled = await start({ DISABLE_STATS: "true" });

    expect(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()).toContain('zone="a"');
    expect(await (await fetch(`${disabled.debug}/metrics`)).text()).toContain("stats are disabled");
  });
});

test("an unavailable statsd server is logged, and so is its return", async () => {
  const port = await freePort();
  const { output } = await start({
    STATSD_HOST: "127.0.0.1",
    STATSD_PORT: String(port),
    STATS_FLUSH_INTERVAL: "10ms",
    LOG_LEVEL: "debug",
  });
  const lines = (text: string) => output.filter((line) => line.includes(`"msg":"${text}"`)).length;
  await expect.poll(() => lines("statsd still cannot be reached")).toBeGreaterThan(3);
  const server = createServer((socket) => socket.resume()).listen(port, "127.0.0.1");
  onTestFinished(() => void server.close());

  await expect.poll(() => lines("statsd is reached again")).toBe(1);
  expect(lines("statsd cannot be reached")).toBe(1);
});

describe("before a configuration is loaded", () => {
  test.each(["1", "2"])("is unhealthy until the folder exists, with %s workers", async (workers) => {
    const folder = join(await folderOf({}), "later");
    const { client, http } = await start({ WORKERS: workers }, folder);
    const call = { domain: "d", descriptors: [descriptor("k=v")] };
    expect(await client.health("ratelimit")).toBe("NOT_SERVING");
    expect((await fetch(`${http}/healthcheck`)).status).toBe(500);
    expect(await client.outcome(call)).toMatchObject({ details: "no rate limit configuration loaded" });
    await mkdir(folder);
    await writeFile(join(folder, "a.yaml"), "domain: d\n");

    await expect.poll(() => client.health("ratelimit")).toBe("SERVING");
    expect((await fetch(`${http}/healthcheck`)).status).toBe(200);
    expect(await client.send(call)).toMatchObject({ overallCode: "OK" });
  });

  test("is unhealthy with only an invalid file, and healthy with an empty folder", async () => {
    const bad = await start({}, await folderOf({ "a.yaml": "domain: ''\n" }));
    const empty = await start({}, await folderOf({}));

    expect(await bad.client.health("ratelimit")).toBe("NOT_SERVING");
    expect(await empty.client.health("ratelimit")).toBe("SERVING");
  });

  test("is healthy if the configuration may arrive later", async () => {
    const folder = join(await folderOf({}), "later");
    const { client } = await start({ FORCE_START_WITHOUT_INITIAL_CONFIG: "true" }, folder);

    expect(await client.health("ratelimit")).toBe("SERVING");
  });
});

describe("several workers", () => {
  test("allow exactly the limit together, however many clients call", async () => {
    const folder = await folderOf({
      "a.yaml": "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: year, requests_per_unit: 500}\n",
    });
    const { grpcPort, debug } = await start({ WORKERS: "2" }, folder);
    const clients = Array.from({ length: 8 }, () => connectRateLimit(grpcPort));
    onTestFinished(() => clients.forEach((client) => client.close()));
    const call = { domain: "d", descriptors: [descriptor("k=v")] };
    const responses = await Promise.all(
      clients.flatMap((client) => Array.from({ length: 100 }, () => client.send(call))),
    );

    expect(responses.filter(({ overallCode }) => overallCode === "OK")).toHaveLength(500);
    expect(await (await fetch(`${debug}/stats`)).text()).toMatch(/rate_limit\.d\.k\.total_hits: 800\n/);
    expect(await (await fetch(`${debug}/stats`)).text()).toMatch(/config_load_success: 1\n/);
    expect(await clients[0]?.health("ratelimit")).toBe("SERVING");
  });

  test("show the live objects of each thread in a heap profile, even before the first call", async () => {
    // V8 samples an allocation every half MiB: the objects of every thread must be many times as large.
    const entries = Array.from({ length: 20_000 }, (_, index) => `  - {key: client, value: number-${index}}\n`);
    const folder = await folderOf({ "large.yaml": `domain: d\ndescriptors:\n${entries.join("")}` });
    const { debug } = await start({ WORKERS: "2" }, folder);
    const profile = await fetch(`${debug}/debug/pprof/heap`);
    const { types, samples } = readProfile(new Uint8Array(await profile.arrayBuffer()));

    expect(types).toEqual(["inuse_space/bytes"]);
    expect([...new Set(samples.map(({ thread }) => thread))].sort()).toEqual(["main", "worker 1", "worker 2"]);
  });

  test("apply a new configuration", async () => {
    const file = (requests: number) =>
      `domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: year, requests_per_unit: ${requests}}\n`;
    const folder = await folderOf({ "a.yaml": file(5) });
    const { grpcPort } = await start({ WORKERS: "2" }, folder);
    await writeFile(join(folder, "a.yaml"), file(7));

    await expect
      .poll(
        async () => {
          const clients = Array.from({ length: 6 }, () => connectRateLimit(grpcPort));
          const calls = clients.map((each) =>
            each.send({ domain: "d", descriptors: [{ ...descriptor("k=v"), hitsAddend: { value: 0 } }] }),
          );
          const limits = (await Promise.all(calls)).map(({ statuses }) => statuses[0]?.currentLimit?.requestsPerUnit);
          clients.forEach((each) => each.close());
          return [...new Set(limits)];
        },
        { timeout: 5_000 },
      )
      .toEqual([7]);
  });
});

describe("a shutdown", () => {
  test("reports NOT_SERVING first, responds during the drain delay, then ends with 0", async () => {
    const { client, child, http } = await start({ SHUTDOWN_DRAIN_DELAY: "700ms" });
    expect(await client.health("ratelimit")).toBe("SERVING");
    const exited = once(child, "exit");
    child.kill("SIGTERM");

    await expect.poll(() => client.health("ratelimit")).toBe("NOT_SERVING");
    expect((await fetch(`${http}/healthcheck`)).status).toBe(500);
    expect((await client.send({ domain: "chat", descriptors: [client1] })).overallCode).toBe("OK");
    expect(await exited).toEqual([0, null]);
  });

  test("ends with 0 while the start waits for Redis", async () => {
    const redis = createServer().listen(0, "127.0.0.1");
    onTestFinished(() => void redis.close());
    const calls = once(redis, "connection");
    await once(redis, "listening");
    const { port } = redis.address() as AddressInfo;
    const child = spawnRateLimitService(["--config-dir", example], {
      ...{ HOST: "127.0.0.1", GRPC_HOST: "127.0.0.1", PORT: "0", GRPC_PORT: "0", DEBUG_PORT: "0" },
      ...{ BACKEND_TYPE: "redis", REDIS_URL: `127.0.0.1:${port}` },
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const exited = once(child, "exit");
    const [connection] = (await calls) as [Socket];
    onTestFinished(() => void connection.destroy());
    child.kill("SIGTERM");

    expect(await exited).toEqual([0, null]);
  });

  test("ends with 0 while it retries the connection to Redis", async () => {
    const port = await freePort();
    const { child, output } = await start({ REDIS_URL: `127.0.0.1:${port}`, REDIS_STARTUP_INITIAL_INTERVAL: "10ms" });
    await expect.poll(() => output.some((line) => line.includes("ECONNREFUSED"))).toBe(true);
    const exited = once(child, "exit");
    child.kill("SIGTERM");

    expect(await exited).toEqual([0, null]);
    expect(output.join("\n")).not.toContain("cannot continue");
  });

  test.each(["SIGINT", "SIGHUP"] as const)("stops at %s as at SIGTERM", async (signal) => {
    const { child, output } = await start();
    const exited = once(child, "exit");
    child.kill(signal);

    expect(await exited).toEqual([0, null]);
    expect(output.at(-1)).toContain('"msg":"stopped"');
  });

  test("ends at once at a second signal", async () => {
    const { child, output } = await start({ SHUTDOWN_DRAIN_DELAY: "60s" });
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    await expect.poll(() => output.some((line) => line.includes("shutting down"))).toBe(true);
    child.kill("SIGINT");

    expect(await exited).toEqual([1, null]);
  });

  test.each(["1", "2"])("loses no call in progress, with %s workers", async (workers) => {
    const { client, child } = await start({ WORKERS: workers });
    const ending = new AbortController();
    const failed: unknown[] = [];
    const pendingCalls = Array.from({ length: 20 }, async () => {
      while (!ending.signal.aborted) {
        const outcome = await client.outcome({ domain: "chat", descriptors: [client1] });
        if ("code" in outcome) failed.push(outcome);
      }
    });
    await client.send({ domain: "chat", descriptors: [client1] });
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    await exited;
    ending.abort();
    await Promise.all(pendingCalls);

    // Calls made after the end get no connection; none that the service had accepted was dropped.
    const dropped = failed.filter((each) => !/ECONNREFUSED|No connection established/.test(JSON.stringify(each)));
    expect(dropped).toEqual([]);
  });
});

test("a unix socket that a killed process left behind is reused", async () => {
  const folder = await folderOf({});
  const socket = join(folder, "grpc.sock");
  const first = await start({ GRPC_UDS: socket });
  await first.kill();
  const second = await start({ GRPC_UDS: socket });

  expect(second.output.some((line) => line.includes(socket))).toBe(true);
});
