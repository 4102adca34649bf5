import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ProtoGrpcType } from "@gatewayproxy/protos/gen/discovery";
import type { DiscoveryRequest__Output } from "@gatewayproxy/protos/gen/envoy/service/discovery/v3/DiscoveryRequest";
import type { DiscoveryResponse } from "@gatewayproxy/protos/gen/envoy/service/discovery/v3/DiscoveryResponse";
import type {
  RateLimitConfig,
  RateLimitConfig__Output,
} from "@gatewayproxy/protos/gen/ratelimit/config/ratelimit/v3/RateLimitConfig";
import { loadProtos, messageOf } from "@gatewayproxy/protos/load";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { loadPackageDefinition, Server, ServerCredentials, type ServerDuplexStream, status } from "@grpc/grpc-js";
import { afterEach, describe, expect, test } from "vitest";
import { TestAuthority } from "../../../../test/support/certificates.ts";
import { describeWith } from "../../../../test/support/describe-with.ts";
import type { ConfigUpdate } from "../config-source.ts";
import { rulesOf } from "../rule.ts";
import type { XdsServer } from "./ads-connection.ts";
import { rateLimitConfigType } from "./xds-resource.ts";
import { XdsSource, type XdsSourceOptions } from "./xds-source.ts";

type AdsStream = ServerDuplexStream<DiscoveryRequest__Output, DiscoveryResponse>;

/** What comes one by one, waited for or already there. */
class Inbox<T> {
  readonly #items: T[] = [];
  readonly #waiting: ((item: T) => void)[] = [];

  put(item: T): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#items.push(item);
    else next(item);
  }

  next(): Promise<T> {
    const item = this.#items.shift();
    return item === undefined ? new Promise((resolve) => this.#waiting.push(resolve)) : Promise.resolve(item);
  }
}

const configMessage = messageOf<RateLimitConfig, RateLimitConfig__Output>(
  loadProtos("ratelimit/config/ratelimit/v3/rls_conf.proto"),
  "ratelimit.config.ratelimit.v3.RateLimitConfig",
);

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A control plane that a test plays: it sees streams and requests, and sends what it is told. */
async function startServer(credentials = ServerCredentials.createInsecure(), port = 0) {
  const streams = new Inbox<AdsStream>();
  const requests = new Inbox<DiscoveryRequest__Output>();
  const server = new Server();
  const definitions = loadProtos("envoy/service/discovery/v3/discovery.proto");
  const { envoy } = loadPackageDefinition(definitions) as unknown as ProtoGrpcType;
  server.addService(envoy.service.discovery.v3.AggregatedDiscoveryService.service, {
    streamAggregatedResources: (stream: AdsStream) => {
      stream.on("data", (request: DiscoveryRequest__Output) => requests.put(request));
      stream.on("error", () => undefined);
      streams.put(stream);
    },
  });
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, credentials, (error, actual) => (error ? reject(error) : resolve(actual)));
  });
  const close = () => server.forceShutdown();
  closing.push(close);
  return { port: bound, streams, requests, close };
}

function startSource(server: Partial<XdsServer> & { readonly address: string }, more: Partial<XdsSourceOptions> = {}) {
  const updates = new Inbox<ConfigUpdate>();
  const faults = new Inbox<string>();
  const source = new XdsSource({
    server: { headers: new Map(), ...server },
    node: { id: "node-1", metadata: new Map([["zone", "a"]]) },
    mergesDomains: false,
    backoff: { connectIntervalMs: 10, initialMs: 10, maxMs: 40, randomFactor: 0 },
    clock: systemClock,
    random: Math.random,
    onFault: (fault) => faults.put(fault),
    ...more,
  });
  source.start((update) => updates.put(update));
  closing.push(() => source.close());
  return { source, updates, faults };
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

function response(version: string, ...configs: readonly RateLimitConfig[]): DiscoveryResponse {
  const resources = configs.map((config) => ({
    type_url: rateLimitConfigType,
    value: configMessage.serialize(config),
  }));
  return { versionInfo: version, nonce: `nonce-${version}`, typeUrl: rateLimitConfigType, resources };
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
  ])("is refused for %s, and the last good one stays", async (_, bad, reason) => {
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

  test("serves nothing while the first response is bad", async () => {
    const server = await startServer();
    const { updates } = startSource({ address: `127.0.0.1:${server.port}` });
    (await server.streams.next()).write(response("1", { name: "bad", domain: "" }));
    expect(pathsOf(await updates.next())).toBeUndefined();
  });

  test("is subscribed to anew with the version in force when the stream ends, after pauses that double", async () => {
    const server = await startServer();
    const { updates, faults } = startSource({ address: `127.0.0.1:${server.port}` });
    const stream = await server.streams.next();
    await server.requests.next();
    stream.write(response("7", perMinute));
    await updates.next();
    await server.requests.next();
    stream.end();
    for (const pause of [10, 20, 40, 40]) {
      expect(await faults.next()).toMatch(new RegExp(`the stream ended; trying again in ${pause} ms$`));
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
    const { updates, faults } = startSource({ address });
    for (let i = 0; i < 3; i++) expect(await faults.next()).toMatch(/ECONNREFUSED.*; trying again in 10 ms$/);
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
    const { faults } = startSource({ address, tls: { ...files, serverName: "somewhere-else.test" } });
    expect(await faults.next()).toMatch(/altnames|trying again/);
  });

  test("tells which certificate cannot be read, and tries again", async () => {
    const { folder } = await authority();
    const { faults } = startSource({ address: "127.0.0.1:1", tls: { authoritiesFile: join(folder, "missing.crt") } });
    expect(await faults.next()).toMatch(/no such file.*missing\.crt.*trying again/);
    expect(await faults.next()).toMatch(/missing\.crt/);
  });
});
