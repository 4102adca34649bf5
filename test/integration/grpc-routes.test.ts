/** GRPCRoutes with real gRPC clients and servers: matches and their precedence, backends, filters, limits, hosts. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  grpcRouteManifest,
  manifests,
  policyManifest,
  routeManifest,
  serviceManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { describeWith } from "../support/describe-with.ts";
import { callGrpc, connectGrpc, echoProto, startGrpcBackend } from "../support/grpc-backend.ts";
import { startInProcess } from "../support/ratelimit-in-process.ts";
import { rawHttp } from "../support/raw-http.ts";

const run = promisify(execFile);
const { OK, UNAVAILABLE, UNIMPLEMENTED, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED } = grpc.status;

function hostOf(gateway: TestGateway): string {
  return new URL(gateway.url()).host;
}

const toEcho = "backendRefs: [{ name: echo, port: 80 }]";

/** Serves a GRPCRoute `calls` with these rules. The Service `echo` has no appProtocol. */
async function serve(rules: readonly string[], ...more: readonly string[]): Promise<TestGateway> {
  const { port } = await startGrpcBackend();
  const service = serviceManifest("echo", [port]);
  return startGateway(manifests(gatewayManifest(), service, grpcRouteManifest("calls", rules), ...more));
}

describe("a Service without appProtocol is called by HTTP/2:", () => {
  test.each([
    ["Say", ["hello"], ["hello"]],
    ["Count", ["3"], ["1", "2", "3"]],
    ["Chat", ["a", "b"], ["A", "B"]],
  ])("%s, with its messages and trailers", async (method, texts, messages) => {
    const gateway = await serve([toEcho]);
    expect(await callGrpc(connectGrpc(hostOf(gateway)), method, texts)).toMatchObject({
      ...{ messages, code: OK, details: "OK", servedBy: "echo" },
    });
    expect(gateway.records[0]).toMatchObject({
      ...{ route: "GRPCRoute/default/calls", rule: "GRPCRoute/default/calls/0" },
      ...{ backend: "Service/default/echo:80 over HTTP/2", status: 200, grpcStatus: 0 },
    });
  });

  test("a failure keeps its status, message and trailers", async () => {
    const gateway = await serve([toEcho]);
    expect(await callGrpc(connectGrpc(hostOf(gateway)), "Fail", ["x"])).toMatchObject({
      ...{ code: grpc.status.FAILED_PRECONDITION, details: "not today", servedBy: "echo" },
    });
    expect(gateway.records[0]).toMatchObject({ grpcStatus: 9, reason: undefined });
  });
});

/**
 * The services `a.One` and `a.Two` with methods `Get` and `List`, as one server that replies with the metadata
 * `x-seen`.
 */
async function startRecorder(name: string): Promise<number> {
  const server = new grpc.Server();
  const definition = loadSync(echoProto)["test.Echo"] as grpc.ServiceDefinition;
  const say = definition["Say"] as grpc.MethodDefinition<object, object>;
  for (const service of ["a.One", "a.Two"]) {
    for (const method of ["Get", "List"]) {
      server.register(
        `/${service}/${method}`,
        (call: grpc.ServerUnaryCall<object, object>, done: grpc.sendUnaryData<object>) => {
          done(null, {
            text: `${name} ${call.metadata.get("x-added").join()} ${call.metadata.get("tenant").join()}`.trim(),
          });
        },
        say.responseSerialize,
        say.requestDeserialize,
        "unary",
      );
    }
  }
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  onTestFinished(() => server.forceShutdown());
  return port;
}

interface Call {
  readonly metadata?: Readonly<Record<string, string>>;
  readonly authority?: string;
  readonly deadlineMs?: number;
}

/** Returns the text of the response, or the code. */
function call(
  gateway: TestGateway,
  path: string,
  { metadata = {}, authority, deadlineMs }: Call = {},
): Promise<string | grpc.status> {
  const client = new grpc.Client(hostOf(gateway), grpc.credentials.createInsecure(), {
    "grpc.use_local_subchannel_pool": 1,
    ...(authority !== undefined && { "grpc.default_authority": authority }),
  });
  onTestFinished(() => client.close());
  const { Say } = loadSync(echoProto)["test.Echo"] as Record<string, grpc.MethodDefinition<object, { text: string }>>;
  if (Say === undefined) throw new Error("echo.proto has no method Say");
  const fields = new grpc.Metadata();
  for (const [name, value] of Object.entries(metadata)) fields.set(name, value);
  const options = deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs };
  return new Promise((resolve) => {
    client.makeUnaryRequest(
      path,
      Say.requestSerialize,
      Say.responseDeserialize,
      { text: "" },
      fields,
      options,
      (error, response) => {
        resolve(error === null ? (response?.text ?? "") : error.code);
      },
    );
  });
}

/** Each rule has a backend of its own, `rule 0`, `rule 1`, … */
async function serveRules(matches: readonly string[]): Promise<TestGateway> {
  const ports = await Promise.all(matches.map((_, index) => startRecorder(`rule ${index}`)));
  return startGateway(
    manifests(
      gatewayManifest(),
      ...ports.map((port, index) => backendManifest(`b${index}`, port)),
      grpcRouteManifest(
        "calls",
        matches.map((match, index) => `{ matches: [${match}], backendRefs: [${backendRef(`b${index}`)}] }`),
      ),
    ),
  );
}

describe("a match of", () => {
  test.each([
    ["service and method", "{ method: { service: a.One, method: Get } }", ["/a.One/Get"]],
    ["a service", "{ method: { service: a.One } }", ["/a.One/Get", "/a.One/List"]],
    ["a method", "{ method: { method: Get } }", ["/a.One/Get", "/a.Two/Get"]],
    [
      "regular expressions",
      "{ method: { type: RegularExpression, service: '^a\\.(One|Two)$', method: 'L.*' } }",
      ["/a.One/List", "/a.Two/List"],
    ],
    [
      "a regular expression of the method",
      "{ method: { type: RegularExpression, method: '.et' } }",
      ["/a.One/Get", "/a.Two/Get"],
    ],
  ])("%s selects exactly its calls", async (_, match, expected) => {
    const gateway = await serveRules([match]);
    const paths = ["/a.One/Get", "/a.One/List", "/a.Two/Get", "/a.Two/List"];
    const results = await Promise.all(paths.map((path) => call(gateway, path)));
    expect(paths.filter((_path, index) => results[index] === "rule 0")).toEqual(expected);
    expect(new Set(results)).toEqual(new Set(["rule 0", UNIMPLEMENTED]));
  });

  test("headers selects the calls with this metadata", async () => {
    const gateway = await serveRules(["{ headers: [{ name: Tenant, value: blue }] }"]);
    expect(await call(gateway, "/a.One/Get", { metadata: { tenant: "blue" } })).toBe("rule 0  blue");
    expect(await call(gateway, "/a.One/Get", { metadata: { tenant: "red" } })).toBe(UNIMPLEMENTED);
  });
});

test("the match with a service has precedence, then the one with a method, then the one with more headers", async () => {
  const gateway = await serveRules([
    "{}",
    "{ method: { method: Get } }",
    "{ method: { service: a.One } }",
    "{ method: { service: a.One, method: Get } }",
    "{ method: { service: a.One, method: Get }, headers: [{ name: tenant, value: blue }] }",
  ]);
  expect(await call(gateway, "/a.Two/List")).toBe("rule 0");
  expect(await call(gateway, "/a.Two/Get")).toBe("rule 1");
  expect(await call(gateway, "/a.One/List")).toBe("rule 2");
  expect(await call(gateway, "/a.One/Get")).toBe("rule 3");
  expect(await call(gateway, "/a.One/Get", { metadata: { tenant: "blue" } })).toBe("rule 4  blue");
});

test("hostnames of the route and the listener select the authority of a call", async () => {
  const { port } = await startGrpcBackend();
  const gateway = await startGateway(
    manifests(
      gatewayManifest().replace("port: 80", 'port: 80, hostname: "*.example.com"'),
      serviceManifest("echo", [port]),
      grpcRouteManifest("calls", [toEcho], "hostnames: [one.example.com, one.example.org]"),
    ),
  );
  expect(await call(gateway, "/test.Echo/Say", { authority: "one.example.com" })).toBe("");
  expect(await call(gateway, "/test.Echo/Say", { authority: "two.example.com" })).toBe(UNIMPLEMENTED);
  expect(await call(gateway, "/test.Echo/Say", { authority: "one.example.org" })).toBe(UNIMPLEMENTED);
});

test("the own hostnames of routes decide about their precedence, not what they have in common with the listener", async () => {
  const gateway = await startGateway(
    manifests(
      gatewayManifest().replace("port: 80", "port: 80, hostname: abc.example.com"),
      backendManifest("wide", await startRecorder("wide")),
      backendManifest("narrow", await startRecorder("narrow")),
      grpcRouteManifest("a", [`backendRefs: [${backendRef("wide")}]`], 'hostnames: ["*.example.com"]'),
      grpcRouteManifest("b", [`backendRefs: [${backendRef("narrow")}]`], "hostnames: [abc.example.com]"),
    ),
  );
  expect(await call(gateway, "/a.One/Get", { authority: "abc.example.com" })).toBe("narrow");
});

test("filters edit the metadata of the call, of the rule and of one backend", async () => {
  const port = await startRecorder("edited");
  const added = (value: string) =>
    `filters: [{ type: RequestHeaderModifier, requestHeaderModifier: { add: [{ name: x-added, value: ${value} }] } }]`;
  const rule = `{ ${added("rule")}, backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: b, ${added("backend")} }] }`;
  const gateway = await startGateway(
    manifests(gatewayManifest(), backendManifest("b", port), grpcRouteManifest("r", [rule])),
  );
  expect(await call(gateway, "/a.One/Get")).toBe("edited rule,backend");
});

test("weights divide the calls, and an invalid backend gets its share with UNAVAILABLE", async () => {
  const [a, b] = [await startRecorder("a"), await startRecorder("b")];
  const refs = `backendRefs: [${backendRef("a", 2)}, ${backendRef("b", 1)}, { name: missing, port: 80, weight: 1 }]`;
  const gateway = await startGateway(
    manifests(gatewayManifest(), backendManifest("a", a), backendManifest("b", b), grpcRouteManifest("r", [refs])),
  );
  const results: unknown[] = [];
  for (let n = 0; n < 8; n++) results.push(await call(gateway, "/a.One/Get"));
  expect(results.toSorted()).toEqual([UNAVAILABLE, UNAVAILABLE, "a", "a", "a", "a", "b", "b"]);
});

test("a policy limits a GRPCRoute, and one of its rules, by the path of the method", async () => {
  const gateway = await serve(
    [`{ name: say, matches: [{ method: { service: test.Echo, method: Say } }], ${toEcho} }`, `{ ${toEcho} }`],
    policyManifest("rule", "kind: GRPCRoute, name: calls, sectionName: say", ["{ requests: 2, unit: Hours }"]),
    policyManifest("route", "kind: GRPCRoute, name: calls", ["{ requests: 1, unit: Hours, key: request.path }"]),
  );
  const say = (): ReturnType<typeof callGrpc> => callGrpc(connectGrpc(hostOf(gateway)), "Say", ["x"]);
  expect((await say()).code).toBe(OK);
  expect((await callGrpc(connectGrpc(hostOf(gateway)), "Count", ["1"])).code).toBe(OK);
  expect((await callGrpc(connectGrpc(hostOf(gateway)), "Count", ["1"])).code).toBe(RESOURCE_EXHAUSTED);
  expect(await say()).toMatchObject({ code: RESOURCE_EXHAUSTED, details: "rate limit exceeded" });
  expect(gateway.records.at(-1)?.decisions.map(({ limit }) => limit.target)).toEqual([
    "GRPCRoute/default/calls#say",
    "GRPCRoute/default/calls",
  ]);
});

test("an HTTPRoute and a GRPCRoute use one Service, each by its protocol, on hosts of their own", async () => {
  const { port } = await startGrpcBackend();
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      serviceManifest("echo", [port]),
      grpcRouteManifest("calls", [toEcho], "hostnames: [grpc.example.com]"),
      routeManifest("calls", [toEcho], "hostnames: [www.example.com]"),
    ),
  );
  expect(await call(gateway, "/test.Echo/Say", { authority: "grpc.example.com" })).toBe("");
  await rawHttp(gateway.url(), "GET / HTTP/1.1\r\nhost: www.example.com\r\nconnection: close\r\n\r\n");
  expect(gateway.records.map(({ route, backend }) => [route, backend])).toEqual([
    ["GRPCRoute/default/calls", "Service/default/echo:80 over HTTP/2"],
    ["default/calls", "Service/default/echo:80"],
  ]);
});

test("a client that gives up by its deadline ends the call at the backend", async () => {
  const cancelled = Promise.withResolvers<string>();
  const server = new grpc.Server();
  const definition = loadSync(echoProto)["test.Echo"] as grpc.ServiceDefinition;
  const idle = (endCall: grpc.ServerUnaryCall<object, object>): void => {
    endCall.on("cancelled", () => cancelled.resolve(endCall.getPath()));
  };
  server.addService(definition, { say: idle, fail: idle, count: idle, chat: idle });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  onTestFinished(() => server.forceShutdown());
  const gateway = await startGateway(
    manifests(gatewayManifest(), serviceManifest("echo", [port]), grpcRouteManifest("r", [toEcho])),
  );
  expect(await call(gateway, "/test.Echo/Say", { deadlineMs: 100 })).toBe(DEADLINE_EXCEEDED);
  expect(await cancelled.promise).toBe("/test.Echo/Say");
});

test("examples/grpc limits the calls of each method", async () => {
  const { port } = await startGrpcBackend();
  const example = readFileSync(join(import.meta.dirname, "../../examples/grpc/gateway.yaml"), "utf8");
  const gateway = await startGateway(example.replace("port: 50051", `port: ${port}`));
  const client = connectGrpc(new URL(gateway.url(8080)).host);
  const codes: grpc.status[] = [];
  for (let n = 0; n < 6; n++) codes.push((await callGrpc(client, "Say", ["x"])).code);
  expect(codes).toEqual([OK, OK, OK, OK, OK, RESOURCE_EXHAUSTED]);
  expect((await callGrpc(client, "Count", ["1"])).code).toBe(OK);
});

describeWith(["grpcurl"], "grpcurl through a GRPCRoute", ({ grpcurl }) => {
  test("lists and describes services by the reflection of the server", async () => {
    const config = mkdtempSync(join(tmpdir(), "reflection-"));
    onTestFinished(() => rmSync(config, { recursive: true }));
    mkdirSync(join(config, "config"));
    const service = await startInProcess({ RUNTIME_ROOT: config, BACKEND_TYPE: "memory" });
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        serviceManifest("limits", [service.grpcPort]),
        grpcRouteManifest("r", ["backendRefs: [{ name: limits, port: 80 }]"]),
      ),
    );
    const { stdout } = await run(grpcurl, ["-plaintext", hostOf(gateway), "list"]);
    expect(stdout).toContain("envoy.service.ratelimit.v3.RateLimitService");
    expect(gateway.records[0]).toMatchObject({ route: "GRPCRoute/default/r", grpcStatus: 0 });
  });
});
