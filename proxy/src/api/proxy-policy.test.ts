import { describe, expect, test } from "vitest";
import { parseResource } from "./parse-resource.ts";
import { errorsOf } from "./testing/errors.ts";

const target = { group: "gateway.networking.k8s.io", kind: "HTTPRoute", name: "chat" };
const entry = { requests: 10, unit: "Minutes" };
const units = '"Seconds", "Minutes", "Hours", "Days", "Weeks", "Months"';

function policy(parts: { targetRefs?: unknown; local?: unknown; global?: unknown; spec?: object; traffic?: object }) {
  const { targetRefs = [target], local = [entry], global, spec = {}, traffic = {} } = parts;
  return {
    apiVersion: "gatewayproxy.dev/v1alpha1",
    kind: "ProxyPolicy",
    metadata: { name: "limits" },
    spec: { targetRefs, traffic: { rateLimit: { local, global }, ...traffic }, ...spec },
  };
}

describe("a local entry", () => {
  test.each([
    ["requests", { requests: 1, unit: "Seconds" }],
    ["requests with burst", { requests: 10, unit: "Minutes", burst: 5 }],
    ["a burst of 0", { requests: 10, unit: "Minutes", burst: 0 }],
    ["tokens", { tokens: 1000, unit: "Hours" }],
    ["the largest amount", { requests: 2147483647, unit: "Hours", burst: 2147483647 }],
    ["windows of two weeks", { ...entry, unit: "Weeks", every: 2 }],
    ["a sliding window", { ...entry, window: "Sliding" }],
    ["a fixed window with a burst", { ...entry, window: "Fixed", burst: 5 }],
    ["quarters of a calendar", { ...entry, unit: "Months", every: 3, window: "Calendar" }],
    ["days of a time zone", { ...entry, unit: "Days", window: "Calendar", timeZone: "America/Argentina/Buenos_Aires" }],
    ["requests in progress", { concurrent: 4 }],
    [
      "a share of requests in progress by key",
      { concurrent: 4, key: "source.address", limit: "8", shareAcrossReplicas: true },
    ],
    ["connections", { connections: 100 }],
    [
      "connections of each client by server name",
      {
        ...{ connections: 5, key: 'source.address + " " + route', when: 'gateway == "default/web"' },
        ...{ mode: "Shadow", shareAcrossReplicas: true, bucket: "clients" },
      },
    ],
    ["a bucket", { ...entry, bucket: "team-a" }],
    ["a share of each replica", { ...entry, shareAcrossReplicas: true }],
    ["a name", { ...entry, name: "per-user-2" }],
    ["a condition", { ...entry, when: 'route != "default/batch" && llm.stream' }],
    ["a limit by expression", { tokens: 5, unit: "Hours", limit: 'int(request.headers["x-limit"])' }],
    ["a cost of the request", { ...entry, cost: 'llm.requestModel == "large" ? 10 : 1' }],
    ["a cost of the response", { tokens: 5, unit: "Hours", cost: "llm.inputTokens + 4 * llm.outputTokens" }],
    ["a key and a mode", { tokens: 1, unit: "Hours", key: 'request.headers["x-api-key"]', mode: "Shadow" }],
  ])("may have %s", (_, local) => {
    expect(errorsOf(policy({ local: [local] }))).toEqual([]);
  });

  const integer = (min: number) => `an integer from ${min} to 2147483647`;
  test.each([
    [
      "neither amount",
      { unit: "Minutes" },
      ": found none, accepted is exactly one of requests, tokens, spend, concurrent and connections",
    ],
    [
      "both amounts",
      { ...entry, tokens: 5 },
      ": found requests and tokens, accepted is exactly one of requests, tokens, spend, concurrent and connections",
    ],
    ["no unit", { requests: 1 }, `.unit: missing, required is one of ${units}`],
    [
      "a unit that is misspelt",
      { requests: 1, unit: "Minute" },
      `.unit: found "Minute", accepted is one of ${units}; did you mean "Minutes"?`,
    ],
    [
      "months without a calendar",
      { requests: 1, unit: "Months" },
      ".unit: found Months with window Fixed, accepted is Months only with window Calendar",
    ],
    [
      "sliding months",
      { requests: 1, unit: "Months", window: "Sliding" },
      ".unit: found Months with window Sliding, accepted is Months only with window Calendar",
    ],
    [
      "hours of a calendar",
      { requests: 1, unit: "Hours", window: "Calendar" },
      ".unit: found Hours with window Calendar, accepted is Days, Weeks, Months",
    ],
    [
      "a window of its own",
      { ...entry, window: "Rolling" },
      '.window: found "Rolling", accepted is one of "Fixed", "Sliding", "Calendar"',
    ],
    ["0 requests in progress", { concurrent: 0 }, `.concurrent: found 0, accepted is ${integer(1)}`],
    [
      "requests, and requests in progress",
      { ...entry, concurrent: 1 },
      ": found requests and concurrent, accepted is exactly one of requests, tokens, spend, concurrent and connections",
    ],
    [
      "a burst of requests in progress",
      { concurrent: 1, burst: 1 },
      ".burst: burst is accepted together with requests only",
    ],
    ["0 connections", { connections: 0 }, `.connections: found 0, accepted is ${integer(1)}`],
    [
      "a key of connections that reads a request",
      { connections: 1, key: "request.path" },
      ".key: expression at column 1: request.path is known with the head of the request; this is evaluated when a connection opens",
    ],
    [
      "a condition of connections that reads a token",
      { connections: 1, when: 'jwt.sub == "a"' },
      ".when: expression at column 1: jwt is known with the head of the request; this is evaluated when a connection opens",
    ],
    ...Object.entries({ unit: "Seconds", every: 1, window: "Fixed", cost: "1", limit: "1" }).map(
      ([field, value]): [string, object, string] => [
        `connections with ${field}`,
        { connections: 1, [field]: value },
        `.${field}: ${field} is not accepted together with connections`,
      ],
    ),
    ...Object.entries({ unit: "Seconds", every: 1, window: "Fixed", cost: "1" }).map(
      ([field, value]): [string, object, string] => [
        `requests in progress with ${field}`,
        { concurrent: 1, [field]: value },
        `.${field}: ${field} is not accepted together with concurrent`,
      ],
    ),
    [
      "a time zone without a calendar",
      { ...entry, timeZone: "UTC" },
      ".timeZone: timeZone is accepted with window Calendar only",
    ],
    [
      "a burst in a sliding window",
      { ...entry, burst: 1, window: "Sliding" },
      ".burst: burst is accepted with fixed windows only",
    ],
    ["an amount of 0", { requests: 0, unit: "Hours" }, `.requests: found 0, accepted is ${integer(1)}`],
    [
      "an amount too large",
      { tokens: 2147483648, unit: "Hours" },
      `.tokens: found 2147483648, accepted is ${integer(1)}`,
    ],
    ["a broken amount", { tokens: 1.5, unit: "Hours" }, `.tokens: found 1.5, accepted is ${integer(1)}`],
    ["an amount as text", { requests: "10", unit: "Hours" }, `.requests: found "10", accepted is ${integer(1)}`],
    ["a negative burst", { ...entry, burst: -1 }, `.burst: found -1, accepted is ${integer(0)}`],
    [
      "a burst of tokens",
      { tokens: 5, unit: "Hours", burst: 0 },
      ".burst: burst is accepted together with requests only",
    ],
    ["a mode of its own", { ...entry, mode: "Off" }, '.mode: found "Off", accepted is one of "Enforce", "Shadow"'],
    [
      "a field of its own",
      { ...entry, burts: 5 },
      '.burts: unknown field "burts", accepted are name, requests, tokens, spend, unpriced, concurrent, unit, every, window, timeZone, burst, key, when, limit, cost, reserve, bucket, shareAcrossReplicas, connections, mode; did you mean "burst"?',
    ],
    [
      "a name with capitals",
      { ...entry, name: "Users" },
      ".name: found \"Users\", accepted is a name of lower case letters, digits and '-', a letter first, at most 63",
    ],
    [
      "a burst beside a limit",
      { ...entry, burst: 1, limit: "5" },
      ".burst: burst is not accepted together with limit or bucket",
    ],
    [
      "a burst in a bucket",
      { ...entry, burst: 1, bucket: "a" },
      ".burst: burst is not accepted together with limit or bucket",
    ],
    ["windows of 0 units", { ...entry, every: 0 }, ".every: found 0, accepted is an integer from 1 to 1000"],
    [
      "a condition that is no condition",
      { ...entry, when: "route" },
      ".when: expression has the type string, accepted is bool",
    ],
    [
      "a limit that is no number",
      { ...entry, limit: "route" },
      ".limit: expression has the type string, accepted are int, uint and double",
    ],
    ["an empty key", { ...entry, key: "" }, '.key: found "", accepted is a CEL expression of 1 to 1024 characters'],
    [
      "a key that is no text",
      { ...entry, key: 5 },
      ".key: found 5, accepted is a CEL expression of 1 to 1024 characters",
    ],
  ])("must not have %s", (_, local, fault) => {
    expect(errorsOf(policy({ local: [local] }))).toEqual([`spec.traffic.rateLimit.local[0]${fault}`]);
  });

  test.each(["Europe/Berlim", "europe/berlin", "+01:00", "Local", "", 5])(
    "must not have the time zone %j",
    (timeZone) => {
      const local = [{ ...entry, unit: "Days", window: "Calendar", timeZone }];
      const accepted = "accepted is a time zone of the IANA database, such as Europe/Berlin";
      expect(errorsOf(policy({ local }))).toEqual([
        `spec.traffic.rateLimit.local[0].timeZone: found ${JSON.stringify(timeZone)}, ${accepted}`,
      ]);
    },
  );

  test("must not have a key that does not compile, and the error has the position", () => {
    const [fault] = errorsOf(policy({ local: [{ ...entry, key: "request.heders.x" }] }));
    expect(fault).toMatch(/^spec\.traffic\.rateLimit\.local\[0\]\.key: expression at column 1: /);
  });

  test("of requests must not have a cost by the response, and one of tokens may", () => {
    const [error] = errorsOf(policy({ local: [{ ...entry, cost: "llm.outputTokens" }] }));
    expect(error).toMatch(/^spec\.traffic\.rateLimit\.local\[0\]\.cost: expression at column 1: /);
  });

  test("must not have a name that another entry of its list has", () => {
    const local = [{ ...entry, name: "a" }, entry, { ...entry, name: "a" }];
    expect(errorsOf(policy({ local }))).toEqual(["spec.traffic.rateLimit.local[2].name: name a is used twice"]);
  });

  test("is Enforce by default", () => {
    const parsed = parseResource(policy({}));
    if (parsed.kind !== "resource" || parsed.resource.kind !== "ProxyPolicy") return expect.unreachable();
    expect(parsed.resource.spec.traffic.rateLimit.local[0]?.mode).toBe("Enforce");
  });
});

describe("a policy", () => {
  test.each([
    ["one entry", { local: [entry] }],
    ["16 entries", { local: Array.from({ length: 16 }, () => entry) }],
    ["a section", { targetRefs: [{ ...target, sectionName: "first" }, target] }],
    ["a Gateway", { targetRefs: [{ ...target, kind: "Gateway" }, target] }],
  ])("may have %s", (_, parts) => {
    expect(errorsOf(policy(parts))).toEqual([]);
  });

  test.each([
    ["no targets", { targetRefs: [] }, "spec.targetRefs: found 0 items, accepted are at least 1"],
    [
      "17 targets",
      { targetRefs: Array.from({ length: 17 }, (_, at) => ({ ...target, name: `r${at}` })) },
      "spec.targetRefs: found 17 items, accepted are at most 16",
    ],
    ["a target twice", { targetRefs: [target, target] }, "spec.targetRefs[1]: HTTPRoute chat is named twice"],
    [
      "a target of another kind",
      { targetRefs: [{ ...target, kind: "Service" }] },
      'spec.targetRefs[0].kind: found "Service", accepted is one of "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute", "Gateway"',
    ],
    [
      "a target of another group",
      { targetRefs: [{ ...target, group: "" }] },
      'spec.targetRefs[0].group: found "", accepted is "gateway.networking.k8s.io"',
    ],
    [
      "a target in another namespace",
      { targetRefs: [{ ...target, namespace: "x" }] },
      'spec.targetRefs[0].namespace: unknown field "namespace", accepted are group, kind, name, sectionName',
    ],
    ["no entries", { local: [] }, "spec.traffic.rateLimit.local: found 0 items, accepted are at least 1"],
    ["neither local nor global", { local: null }, "spec.traffic.rateLimit: found neither, required is local or global"],
    [
      "17 entries",
      { local: Array.from({ length: 17 }, () => entry) },
      "spec.traffic.rateLimit.local: found 17 items, accepted are at most 16",
    ],
    [
      "other traffic",
      { traffic: { timeout: "1s" } },
      'spec.traffic.timeout: unknown field "timeout", accepted are authentication, rateLimit',
    ],
    [
      "another spec",
      { spec: { trafic: {} } },
      'spec.trafic: unknown field "trafic", accepted are targetRefs, traffic; did you mean "traffic"?',
    ],
  ])("must not have %s", (_, parts, fault) => {
    expect(errorsOf(policy(parts))).toEqual([fault]);
  });

  test("reports all its errors at once", () => {
    const errors = errorsOf(
      policy({ targetRefs: [{ ...target, kind: "Pod" }], local: [{ unit: "Day" }, { requests: -1, unit: "Hour" }] }),
    );
    expect(errors.map((fault) => fault.slice(0, fault.indexOf(":")))).toEqual([
      "spec.targetRefs[0].kind",
      "spec.traffic.rateLimit.local[0].unit",
      "spec.traffic.rateLimit.local[1].requests",
      "spec.traffic.rateLimit.local[1].unit",
    ]);
  });
});

describe("a global limit", () => {
  const global = {
    backendRef: { name: "ratelimit", port: 8081 },
    domain: "chat",
    descriptors: [{ entries: [{ name: "remote_address", expression: "source.address" }] }],
  };

  test.each([
    ["a Service", {}],
    ["an address", { backendRef: undefined, address: "127.0.0.1:8081" }],
    [
      "everything",
      {
        timeout: "20ms",
        failureMode: "Closed",
        mode: "Shadow",
        envoyRatelimitedHeader: "Always",
        fallback: [{ tokens: 5, unit: "Hours" }],
      },
    ],
    [
      "an override and a cost",
      {
        descriptors: [
          {
            ...global.descriptors[0],
            unit: "Tokens",
            cost: "llm.totalTokens",
            limitOverride: { requestsPerUnit: 5, unit: "Day" },
          },
        ],
      },
    ],
    [
      "a condition and an override by expression",
      {
        descriptors: [
          {
            ...global.descriptors[0],
            when: 'jwt.tier != "internal"',
            limitOverride: { requestsPerUnit: "int(jwt.rpm)", default: 4_294_967_295, unit: "Minute" },
          },
        ],
      },
    ],
  ])("may have %s", (_, parts) => {
    expect(errorsOf(policy({ global: { ...global, ...parts } }))).toEqual([]);
  });

  test.each([
    ["no service", { backendRef: undefined }, ": accepted is exactly one of backendRef and address"],
    ["two services", { address: "127.0.0.1:8081" }, ": accepted is exactly one of backendRef and address"],
    ["no domain", { domain: undefined }, ".domain: missing, required is a domain of 1 to 256 characters"],
    ["no descriptors", { descriptors: [] }, ".descriptors: found 0 items, accepted are at least 1"],
    [
      "a failure mode of its own",
      { failureMode: "FailOpen" },
      '.failureMode: found "FailOpen", accepted is one of "Local", "Open", "Closed"',
    ],
    [
      "a timeout without unit",
      { timeout: 100 },
      ".timeout: found 100, accepted is a duration from 1ms to 60s, such as 100ms",
    ],
    [
      "a fallback with a mode",
      { fallback: [{ ...entry, mode: "Shadow" }] },
      '.fallback[0].mode: unknown field "mode", accepted are name, requests, tokens, spend, unpriced, concurrent, unit, every, window, timeZone, burst',
    ],
    [
      "a fallback with neither amount",
      { fallback: [{ unit: "Hours" }] },
      ".fallback[0]: found none, accepted is exactly one of requests, tokens, spend and concurrent",
    ],
  ])("must not have %s", (_, parts, fault) => {
    const errors = errorsOf(policy({ global: { ...global, ...parts } }));
    expect(errors).toHaveLength(1);
    expect(errors[0]).toContain(`spec.traffic.rateLimit.global${fault}`);
  });

  test.each([
    ["a condition that is none", { when: "request.path" }, "when: expression has the type string"],
    ["a condition on the response", { when: "llm.totalTokens > 1" }, "when: expression at column 1"],
    [
      "an override that is no number",
      { limitOverride: { requestsPerUnit: "request.path", unit: "Day" } },
      "limitOverride.requestsPerUnit: expression has the type string",
    ],
    [
      "an override of more than a uint32",
      { limitOverride: { requestsPerUnit: 4_294_967_296, unit: "Day" } },
      "limitOverride.requestsPerUnit: found 4294967296, accepted is an integer from 0 to 4294967295, or a CEL expression",
    ],
    [
      "a default beside a number",
      { limitOverride: { requestsPerUnit: 5, default: 1, unit: "Day" } },
      "limitOverride.default: default is accepted together with an expression",
    ],
  ])("must not have a descriptor with %s", (_, parts, fault) => {
    const descriptors = [{ ...global.descriptors[0], ...parts }];
    const errors = errorsOf(policy({ global: { ...global, descriptors } }));
    expect(errors).toHaveLength(1);
    expect(errors[0]).toContain(`spec.traffic.rateLimit.global.descriptors[0].${fault}`);
  });
});
