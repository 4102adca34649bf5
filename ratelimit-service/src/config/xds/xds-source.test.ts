import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DiscoveryResponse } from "@gatewayproxy/protos/gen/envoy/service/discovery/v3/DiscoveryResponse";
import type { RateLimitConfig } from "@gatewayproxy/protos/gen/ratelimit/config/ratelimit/v3/RateLimitConfig";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { ServerCredentials, status } from "@grpc/grpc-js";
import { afterEach, describe, expect, test } from "vitest";
import { TestAuthority } from "../../../../test/support/certificates.ts";
import { describeWith } from "../../../../test/support/describe-with.ts";
import type { ConfigUpdate } from "../config-source.ts";
import { rulesOf } from "../rule.ts";
import type { XdsServer } from "./ads-connection.ts";
import { Inbox, response, startXdsServer } from "./testing/xds-server.ts";
import { rateLimitConfigType } from "./xds-resource.ts";
import { XdsSource, type XdsSourceOptions } from "./xds-source.ts";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function startServer(...given: Parameters<typeof startXdsServer>) {
  const server = await startXdsServer(...given);
  closing.push(() => server.close());
  return server;
}

function startSource(server: Partial<XdsServer> & { readonly address: string }, more: Partial<XdsSourceOptions> = {}) {
  const updates = new Inbox<ConfigUpdate>();
  const errors = new Inbox<string>();
  const source = new XdsSource({
    server: { headers: new Map(), ...server },
    node: { id: "node-1", metadata: new Map([["zone", "a"]]) },
    mergesDomains: false,
    backoff: { connectIntervalMs: 10, initialMs: 10, maxMs: 40, randomFactor: 0 },
    clock: systemClock,
    random: Math.random,
    onError: (problem) => errors.put(problem),
    ...more,
  });
  source.start((update) => updates.put(update));
  closing.push(() => source.close());
  return { source, updates, errors };
}

const perMinute: RateLimitConfig = {
  name: "one",
  domain: "d",
  descriptors: [
    {
      key: "k",
      value: "v",
      rateLimit: { unit: "WEEK", requestsPerUnit: 7, name: "seven", replaces: [{ name: "other" }] },
      shadowMode: true,
      metadata: {
        fields: {
          list: { listValue: { values: [{ numberValue: 1 }, { boolValue: true }, { nullValue: "NULL_VALUE" }] } },
        },
      },
      descriptors: [{ key: "sub", rateLimit: { unlimited: true } }],
    },
  ],
};

/** A resource of one descriptor in another, so many levels deep. */
function nested(levels: number): RateLimitConfig {
  let descriptors: RateLimitConfig["descriptors"] = [];
  for (let level = 0; level < levels; level++) descriptors = [{ key: "k", descriptors }];
  return { name: "deep", domain: "deep", descriptors };
}

function pathsOf({ config }: ConfigUpdate): readonly string[] | undefined {
  return config === undefined ? undefined : [...rulesOf(config)].map(({ path }) => path);
}

describe("configuration by xDS", () => {
  test("is subscribed to with the node, its metadata and the headers", async () => {
    const server = await startServer();
    startSource({ address: `127.0.0.1:${server.port}`, headers: new Map([["x-tenant", "blue"]]) });
    const [request, stream] = [await server.requests.next(), await server.streams.next()];
    expect(request).toMatchObject({
      typeUrl: rateLimitConfigType,
      versionInfo: "",
      responseNonce: "",
      resourceNames: [],
      node: { id: "node-1", metadata: { fields: { zone: { stringValue: "a" } } } },
    });
    expect(stream.metadata.get("x-tenant")).toEqual(["blue"]);
  });

  test("is served and acknowledged, with all that a resource can say", async () => {
    const server = await startServer();
    const { updates } = startSource({ address: `127.0.0.1:${server.port}` });
    const stream = await server.streams.next();
    await server.requests.next();
    stream.write(response("1", perMinute));
    const { config, parts, problems } = await updates.next();
    const [rule, unlimited] = config === undefined ? [] : [...rulesOf(config)];
    expect(rule).toMatchObject({
      path: "d.k_v",
      limit: { requestsPerUnit: 7, unit: "WEEK", name: "seven" },
      replaces: ["other"],
      shadowMode: true,
      metadata: { list: [1, true, null] },
    });
    expect(unlimited).toMatchObject({ path: "d.k_v.sub", windowSeconds: 0 });
    expect({ parts, problems }).toEqual({ parts: [{ key: "one", domain: "d", state: "current" }], problems: [] });
    expect(await server.requests.next()).toMatchObject({
      versionInfo: "1",
      responseNonce: "nonce-1",
      errorDetail: null,
    });
  });

  test("is the whole of each response: what is missing is gone", async () => {
    const server = await startServer();
    const { updates } = startSource({ address: `127.0.0.1:${server.port}` });
    const stream = await server.streams.next();
    stream.write(
      response("1", perMinute, { name: "two", domain: "e", descriptors: [{ key: "x", rateLimit: { unit: "DAY" } }] }),
    );
    expect(pathsOf(await updates.next())).toEqual(["d.k_v", "d.k_v.sub", "e.x"]);
    stream.write(response("2", perMinute));
    expect(pathsOf(await updates.next())).toEqual(["d.k_v", "d.k_v.sub"]);
    stream.write(response("3"));
    expect(pathsOf(await updates.next())).toEqual([]);
  });

  test.each<[string, DiscoveryResponse, RegExp]>([
    [
      "a limit without unit",
      response("2", { name: "bad", domain: "d", descriptors: [{ key: "k", rateLimit: { requestsPerUnit: 1 } }] }),
      /^bad: invalid rate limit unit 'UNKNOWN'/,
    ],
    [
      "two of one domain",
      response("2", perMinute, { name: "one", domain: "d" }),
      /^one: duplicate domain 'd' in config file/,
    ],
    [
      "bytes of something else",
      {
        versionInfo: "2",
        nonce: "nonce-2",
        resources: [{ type_url: rateLimitConfigType, value: Buffer.from([0xff]) }],
      },
      /^resource 0 cannot be read: /,
    ],
    [
      "another type",
      {
        versionInfo: "2",
        nonce: "nonce-2",
        resources: [{ type_url: "type.googleapis.com/x.Y", value: Buffer.alloc(0) }],
      },
      /^resource 0 cannot be read: resource of type type\.googleapis\.com\/x\.Y/,
    ],
  ])("is rejected for %s, and the last good one stays", async (_, bad, reason) => {
    const server = await startServer();
    const { updates } = startSource({ address: `127.0.0.1:${server.port}` });
    const stream = await server.streams.next();
    await server.requests.next();
    stream.write(response("1", perMinute));
    await updates.next();
    await server.requests.next();
    stream.write(bad);
    const update = await updates.next();
    expect(pathsOf(update)).toEqual(["d.k_v", "d.k_v.sub"]);
    expect(update.problems).not.toEqual([]);
    const nack = await server.requests.next();
    expect(nack).toMatchObject({
      versionInfo: "1",
      responseNonce: "nonce-2",
      errorDetail: { code: status.INVALID_ARGUMENT },
    });
    expect(nack.errorDetail?.message).toMatch(reason);
    stream.write(response("3"));
    expect(pathsOf(await updates.next())).toEqual([]);
  });

  test.each<[string, RateLimitConfig[], RegExp]>([
    ["more descriptors than are accepted", [{ ...perMinute, name: "many", domain: "e" }], /more than 3 descriptors/],
    ["more resources than are accepted", Array<RateLimitConfig>(10_001).fill(perMinute), /^10001 resources, at most/],
    ["descriptors nested deeper than a call can be", [nested(65)], /^resource 0 cannot be read: .* deeper than 64/],
  ])("is rejected for %s, and the last good one stays", async (_, configs, reason) => {
    const server = await startServer();
    const maxDescriptors = configs.length === 1 && configs[0]?.name === "many" ? 3 : 1_000;
    const { updates } = startSource({ address: `127.0.0.1:${server.port}` }, { maxDescriptors });
    const stream = await server.streams.next();
    await server.requests.next();
    stream.write(response("1", perMinute));
    await updates.next();
    await server.requests.next();
    stream.write(response("2", ...(maxDescriptors === 3 ? [perMinute] : []), ...configs));
    expect(pathsOf(await updates.next())).toEqual(["d.k_v", "d.k_v.sub"]);
    expect((await server.requests.next()).errorDetail?.message).toMatch(reason);
  });

  test("of a message beyond the bound is not taken, and the setting is named", async () => {
    const server = await startServer();
    const { errors } = startSource({ address: `127.0.0.1:${server.port}`, maxMessageBytes: 20 });
    (await server.streams.next()).write(response("1", perMinute));
    expect(await errors.next()).toMatch(/larger than max.*XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES/);
  });

  test("is read in turns of the event loop, however large", async () => {
    const server = await startServer();
    let [ms, turns] = [0, 0];
    // A look at the clock takes a millisecond, so that a slice is some hundred descriptors on every machine.
    const clock = {
      ...systemClock,
      monotonicMs: () => ms++,
      setTimer: systemClock.setTimer.bind(systemClock),
      every: systemClock.every.bind(systemClock),
    };
    const address = `127.0.0.1:${server.port}`;
    const { updates } = startSource({ address, maxMessageBytes: 10_000_000 }, { clock });
    const rateLimit = { unit: "HOUR", requestsPerUnit: 1 } as const;
    const descriptors = Array.from({ length: 20_000 }, (_, i) => ({ key: `key${i}`, value: "v", rateLimit }));
    (await server.streams.next()).write(response("1", { name: "large", domain: "large", descriptors }));
    let immediate = setImmediate(function next() {
      turns++;
      immediate = setImmediate(next);
    });
    const update = await updates.next();
    clearImmediate(immediate);
    expect(pathsOf(update)).toHaveLength(20_000);
    // Each descriptor is read and built: 40,000 pieces, 320 in a slice.
    expect(turns).toBeGreaterThanOrEqual(124);
  });

  test("serves the newest of responses that come together", async () => {
    const server = await startServer();
    const { updates } = startSource({ address: `127.0.0.1:${server.port}` });
    const stream = await server.streams.next();
    await server.requests.next();
    for (let version = 1; version <= 20; version++) {
      stream.write(response(String(version), { ...perMinute, domain: `d${version}` }));
    }
    let paths: readonly string[] | undefined;
    while (paths?.[0] !== "d20.k_v") paths = pathsOf(await updates.next());
    let request = await server.requests.next();
    while (request.versionInfo !== "20") request = await server.requests.next();
    expect(request).toMatchObject({ responseNonce: "nonce-20", errorDetail: null });
  });

  test("serves nothing while the first response is bad", async () => {
    const server = await startServer();
    const { updates } = startSource({ address: `127.0.0.1:${server.port}` });
    (await server.streams.next()).write(response("1", { name: "bad", domain: "" }));
    expect(pathsOf(await updates.next())).toBeUndefined();
  });

  test("is subscribed to again with the version in force when the stream ends, after pauses that double", async () => {
    const server = await startServer();
    const { updates, errors } = startSource({ address: `127.0.0.1:${server.port}` });
    const stream = await server.streams.next();
    await server.requests.next();
    stream.write(response("7", perMinute));
    await updates.next();
    await server.requests.next();
    stream.end();
    for (const pause of [10, 20, 40, 40]) {
      expect(await errors.next()).toMatch(new RegExp(`the stream ended; trying again in ${pause} ms$`));
      expect(await server.requests.next()).toMatchObject({
        versionInfo: "7",
        responseNonce: "",
        node: { id: "node-1" },
      });
      (await server.streams.next()).end();
    }
  });

  test("keeps looking for a server that is not there, in even intervals", async () => {
    const gone = await startServer();
    gone.close();
    const address = `127.0.0.1:${gone.port}`;
    const { updates, errors } = startSource({ address });
    for (let i = 0; i < 3; i++) expect(await errors.next()).toMatch(/ECONNREFUSED.*; trying again in 10 ms$/);
    const server = await startServer(ServerCredentials.createInsecure(), gone.port);
    (await server.streams.next()).write(response("1", perMinute));
    expect(pathsOf(await updates.next())).toEqual(["d.k_v", "d.k_v.sub"]);
  });

  test("ends with its source: no update and no attempt after that", async () => {
    const server = await startServer();
    const { source } = startSource({ address: `127.0.0.1:${server.port}` });
    const stream = await server.streams.next();
    const cancelled = once(stream, "cancelled");
    source.close();
    await cancelled;
  });
});

describeWith(["openssl"], "configuration by xDS over TLS", (program) => {
  async function authority() {
    const folder = await mkdtemp(join(tmpdir(), "xds-tls-"));
    closing.push(() => rm(folder, { recursive: true }));
    return { folder, made: new TestAuthority(program.openssl, folder, "authority") };
  }

  test("is taken from a server whose certificate carries the name that is asked for, which sees ours", async () => {
    const { made } = await authority();
    const own = made.issue("control-plane", "DNS:control-plane.test");
    const client = made.issue("client");
    const pair = [{ private_key: Buffer.from(own.key), cert_chain: Buffer.from(own.cert) }];
    const server = await startServer(ServerCredentials.createSsl(Buffer.from(made.authority.cert), pair, true));
    const files = {
      authoritiesFile: made.authority.certFile,
      certificateFile: client.certFile,
      keyFile: client.keyFile,
    };
    const address = `127.0.0.1:${server.port}`;
    const { updates } = startSource({ address, tls: { ...files, serverName: "control-plane.test" } });
    (await server.streams.next()).write(response("1", perMinute));
    expect(pathsOf(await updates.next())).toEqual(["d.k_v", "d.k_v.sub"]);
    const { errors } = startSource({ address, tls: { ...files, serverName: "somewhere-else.test" } });
    expect(await errors.next()).toMatch(/altnames|trying again/);
  });

  test("reports which certificate cannot be read, and tries again", async () => {
    const { folder } = await authority();
    const { errors } = startSource({ address: "127.0.0.1:1", tls: { authoritiesFile: join(folder, "missing.crt") } });
    expect(await errors.next()).toMatch(/no such file.*missing\.crt.*trying again/);
    expect(await errors.next()).toMatch(/missing\.crt/);
  });
});
