/**
 * The compose files of envoyproxy/ratelimit, in which only the image of ratelimit is replaced by ours. Envoy is real. A
 * program that prints what it receives takes the place of statsd_exporter, and memcached, to which nothing connects, is
 * left out.
 */
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { createClient } from "@redis/client";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { send } from "./support/client.ts";
import { eventually } from "./support/cluster.ts";
import { type Composition, composeUp, type Replacement } from "./support/compose.ts";

const folder = join(import.meta.dirname, "testdata/compose");

const ours = `${process.env["IMAGE_REGISTRY"] ?? "localhost/gateway-proxy"}/ratelimit-service:latest`;
const envoy = process.env["ENVOY_IMAGE"] ?? "docker.io/envoyproxy/envoy:v1.40.0";
/** The image of Redis of the test rig lacks the setting of the public one. */
const redis: Replacement = {
  image: process.env["REDIS_IMAGE"] ?? "redis:alpine",
  run: { entrypoint: "redis-server", args: ["--protected-mode", "no", "--save", ""] },
};
const statsd: Replacement = {
  image: ours,
  run: {
    entrypoint: "node",
    args: [
      "-e",
      "require('node:net').createServer((socket) => socket.pipe(process.stdout, { end: false })).listen(9125)",
    ],
  },
};

/** Waits for a new minute if little is left of this one: the windows follow the clock. */
async function enoughOfTheMinute(): Promise<void> {
  const left = 60_000 - (Date.now() % 60_000);
  if (left < 10_000) await delay(left + 200);
}

/** Deletes all counters. */
async function flush(composition: Composition): Promise<void> {
  const client = createClient({ socket: { host: "127.0.0.1", port: await composition.port("redis", 6379) } });
  await client.connect();
  await client.sendCommand(["FLUSHALL"]);
  client.destroy();
}

async function untilHealthy(composition: Composition): Promise<void> {
  const port = await composition.port("ratelimit", 8080);
  await eventually("the service is healthy", async () =>
    (await send({ port, path: "/healthcheck" })).status === 200 ? true : undefined,
  );
}

/** A call by the client of the image until the service decides: it starts before Redis is ready. */
function callUntilDecided(composition: Composition, entry: string): Promise<string> {
  const command = ["/bin/ratelimit_client", "-dial_string", "ratelimit:8081", "-domain", "rl", "-descriptors", entry];
  return eventually("the service decides", () =>
    composition.exec("ratelimit", command).then(
      (output) => /"overallCode":"(\w+)"/.exec(output)?.[1],
      () => undefined,
    ),
  );
}

describe("docker-compose.yml", () => {
  let copy: string;
  let composition: Composition;

  beforeAll(async () => {
    copy = await mkdtemp(join(tmpdir(), "compose-"));
    await cp(folder, copy, { recursive: true });
    const replacements = { redis, ratelimit: { image: ours } };
    composition = await composeUp(join(copy, "docker-compose.yml"), "e2e-compose", replacements);
    await untilHealthy(composition);
  });

  afterAll(async () => {
    await composition[Symbol.asyncDispose]();
    await rm(copy, { recursive: true });
  });

  test("has the limits of the mounted folder by gRPC and HTTP, and applies an edit", async () => {
    const http = await composition.port("ratelimit", 8080);
    const debug = await composition.port("ratelimit", 6070);
    const limits = async () => (await send({ port: debug, path: "/rlconfig", host: "127.0.0.1" })).body;
    expect(await limits()).toContain("rl.foo: unit=MINUTE requests_per_unit=2");
    expect(await limits()).toContain("mongo_cps.database_users: unit=SECOND requests_per_unit=500");
    await enoughOfTheMinute();
    expect(await callUntilDecided(composition, "foo=a")).toBe("OK");
    expect(await callUntilDecided(composition, "foo=a")).toBe("OK");
    expect(await callUntilDecided(composition, "foo=a")).toBe("OVER_LIMIT");
    const body = { domain: "rl", descriptors: [{ entries: [{ key: "foo", value: "a" }] }] };
    const denied = await send({ port: http, path: "/json", body });
    expect([denied.status, JSON.parse(denied.body)]).toEqual([
      429,
      expect.objectContaining({ overallCode: "OVER_LIMIT" }),
    ]);

    const file = join(copy, "examples/ratelimit/config/config.yaml");
    const text = await readFile(file, "utf8");
    await writeFile(
      file,
      text.replace("value: users, rate_limit: { unit: second", "value: users, rate_limit: { unit: hour"),
    );
    await eventually("the edit is in use", async () =>
      (await limits()).includes("mongo_cps.database_users: unit=HOUR") ? true : undefined,
    );
  });
});

type Headers = Readonly<Record<string, string>>;

/** A request of the scripts of its integration test, and the status. */
type Step = readonly [path: string, headers: Headers, status: number];

const repeat = (count: number, ...step: Step): readonly Step[] => Array<Step>(count).fill(step);

const banned = { foo: "one", bar: "banned" };
const of = (source: Headers, destination: string): Headers => ({
  ...source,
  source_cluster: "proxy",
  destination_cluster: destination,
});
const once = { foo: "two", bar: "bkthomps" };

/** By the names of the scripts, and the requests of its README. */
const steps: Readonly<Record<string, readonly Step[]>> = {
  "README: clusters": [...repeat(1, "/test", {}, 200), ...repeat(2, "/test", {}, 429)],
  "README: a header": [...repeat(2, "/header", { foo: "foo" }, 200), ...repeat(1, "/header", { foo: "foo" }, 429)],
  "README: a banned value": repeat(1, "/twoheader", { foo: "foo", bar: "banned" }, 429),
  "simple-get": repeat(1, "/twoheader", { foo: "test", baz: "shady" }, 200),
  "trigger-ratelimit": [
    ...repeat(3, "/twoheader", { foo: "pelle", baz: "not-so-shady" }, 200),
    ...repeat(2, "/twoheader", { foo: "pelle", baz: "not-so-shady" }, 429),
  ],
  "trigger-shadow-mode-key": repeat(6, "/twoheader", { foo: "pelle", baz: "shady" }, 200),
  "replaces: a higher limit": [
    ["/twoheader", banned, 429],
    ["/fourheader", of(banned, "mock"), 429],
    ...repeat(2, "/fourheader", of(banned, "override"), 200),
    ["/fourheader", of(banned, "override"), 429],
  ],
  "replaces: the replaced limit stays": [
    ...repeat(2, "/fourheader", of(once, "bkthomps"), 200),
    ["/fourheader", of(once, "bkthomps"), 429],
    ["/fourheader", of(once, "not_bkthomps"), 200],
    ["/fourheader", of(once, "not_bkthomps"), 429],
  ],
  "replaces: several limits": [
    ...repeat(4, "/fiveheader", { ...of(once, "fake"), category: "account" }, 200),
    ["/fiveheader", { ...of(once, "fake"), category: "account" }, 429],
    ["/twoheader", { ...once, foo: "three" }, 200],
    ["/twoheader", { ...once, foo: "three" }, 429],
    ...repeat(2, "/fourheader", of({ foo: "four", bar: "four" }, "fake"), 200),
    ["/fourheader", of({ foo: "four", bar: "four" }, "fake"), 429],
  ],
  quota: [...repeat(2, "/quota", {}, 200), ["/quota", {}, 429]],
  "token-quota": [...repeat(3, "/tokenquota", {}, 200), ["/tokenquota", {}, 429]],
};

describe("docker-compose-example.yml", () => {
  let composition: Composition;
  let port: number;

  beforeAll(async () => {
    const replacements = {
      ...{ redis, statsd, ratelimit: { image: ours } },
      ...{ "envoy-proxy": { image: envoy }, "envoy-mock": { image: envoy } },
    };
    // As in its integration test, whose file has the same services.
    const more = { ratelimit: ["RESPONSE_DYNAMIC_METADATA=true"] };
    composition = await composeUp(
      join(folder, "docker-compose-example.yml"),
      "e2e-compose-example",
      replacements,
      more,
    );
    await untilHealthy(composition);
    await callUntilDecided(composition, "qux=any");
    port = await composition.port("envoy-proxy", 8888);
    await untilEnforced();
  });

  afterAll(() => composition[Symbol.asyncDispose]());

  beforeEach(async () => {
    await enoughOfTheMinute();
    await flush(composition);
  });

  /**
   * Waits until Envoy has resolved the names of its clusters. It allows requests while the service does not respond.
   */
  async function untilEnforced(): Promise<void> {
    const headers = { foo: "any", bar: "banned" };
    await eventually("Envoy calls the service and the server behind it", async () => {
      const [denied, served] = [
        await send({ port, path: "/twoheader", headers }),
        await send({ port, path: "/header" }),
      ];
      return denied.status === 429 && served.status === 200 ? true : undefined;
    });
  }

  async function statusesOf(all: readonly Step[]): Promise<readonly Step[]> {
    const found: Step[] = [];
    for (const [path, headers] of all) found.push([path, headers, (await send({ port, path, headers })).status]);
    return found;
  }

  /**
   * The number of requests that Envoy has allowed because the service failed, or did not respond within Envoy's timeout
   * of 20 ms.
   */
  async function allowedByFailures(): Promise<number> {
    const admin = await composition.port("envoy-proxy", 8001);
    const { body } = await send({ port: admin, path: "/stats?filter=failure_mode_allowed" });
    return body.split("\n").reduce((sum, line) => sum + Number(line.split(": ")[1] ?? 0), 0);
  }

  /** Repeats requests until the service has decided about all of them, since it may be late on a busy machine. */
  async function decided<Result>(makeRequests: () => Promise<Result>): Promise<Result> {
    return eventually("the service decides about each request", async () => {
      await flush(composition);
      const before = await allowedByFailures();
      const result = await makeRequests();
      return (await allowedByFailures()) === before ? result : undefined;
    });
  }

  test.each(Object.entries(steps))("%s", async (_, all) => {
    expect(await decided(() => statusesOf(all))).toEqual(all);
  });

  test("multiservice-tokenquota: the service with quota gets the request", async () => {
    const bodies = await decided(async () => {
      const all: string[] = [];
      for (let i = 0; i < 6; i++) all.push((await send({ port, path: "/multiservice-tokenquota" })).body);
      return all;
    });
    const hello = (service: number, count: number): readonly string[] =>
      Array<string>(count).fill(`Hello World from Service ${service}`);
    expect(bodies).toEqual([...hello(1, 2), ...hello(2, 3), expect.not.stringContaining("Hello")]);
  });

  test("value-included-in-stats-key-when-unspecified: Envoy's headers once, and the metrics of the reference", async () => {
    // Not that of an earlier try, which the metrics have.
    const value = `unspecified_${Date.now()}`;
    const request = { port, path: "/unspec", headers: { unspec: value } };
    const [first, , last] = [await send(request), await send(request), await send(request)];
    expect(first.headers).toMatchObject({ "x-ratelimit-limit": "2, 2;w=60", "x-ratelimit-remaining": "1" });
    expect(first.headers).not.toHaveProperty("x-envoy-ratelimited");
    expect(last).toMatchObject({
      status: 429,
      headers: { "x-envoy-ratelimited": "true", "x-ratelimit-limit": "2, 2;w=60", "x-ratelimit-remaining": "0" },
    });
    const prefix = `ratelimit.service.rate_limit.rl.unspec_${value}.`;
    await eventually("the metrics are sent, every 10 s", async () => {
      const sums = { total_hits: 0, within_limit: 0, over_limit: 0 };
      const lines = (await composition.logs("statsd")).split("\n");
      for (const name of Object.keys(sums) as (keyof typeof sums)[]) {
        const start = `${prefix}${name}:`;
        const counts = lines
          .filter((line) => line.startsWith(start))
          .map((line) => parseInt(line.slice(start.length), 10));
        sums[name] = counts.reduce((sum, each) => sum + each, 0);
      }
      return isDeepStrictEqual(sums, { total_hits: 3, within_limit: 2, over_limit: 1 }) ? true : undefined;
    });
  });

  test("a Redis outage restarts nothing, and Envoy's limits return with Redis", async () => {
    const header = { path: "/header", headers: { foo: "outage" } };
    const [before, allowed] = [await composition.life("ratelimit"), await allowedByFailures()];
    await composition.stop("redis");
    // Envoy's setting failure_mode_deny: false.
    for (let i = 0; i < 5; i++) expect((await send({ port, ...header })).status).toBe(200);
    expect(await allowedByFailures()).toBe(allowed + 5);
    const health = await send({ port: await composition.port("ratelimit", 8080), path: "/healthcheck" });
    expect(health.status).toBe(200);
    expect(await composition.logs("ratelimit")).toContain("store fails");

    await composition.start("redis");
    await eventually("the limits are enforced", async () =>
      (await send({ port, ...header })).status === 429 ? true : undefined,
    );
    expect(await composition.life("ratelimit")).toBe(before);
    expect(before).toContain("running");
  });
});
