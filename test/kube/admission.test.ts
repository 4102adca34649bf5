/**
 * The API server and the parser accept the same ProxyPolicies and Backends: each manifest is validated by both, with
 * strict field validation, as `kubectl apply` requests it.
 */
import { describe, expect, test } from "vitest";
import { ClusterConnection } from "../../proxy/src/kube/connection.ts";
import { findCluster } from "../../proxy/src/kube/cluster.ts";
import { parseResource } from "../../proxy/src/api/parse-resource.ts";
import { errorsOf } from "../../proxy/src/api/testing/errors.ts";
import { acceptedResponses, rejectedResponses } from "../../proxy/src/api/testing/limit-responses.ts";
import { type Cluster, describeCluster } from "./support/cluster.ts";
import { acceptedRoutes, rejectedRoutes } from "./support/http-route-manifests.ts";
import { acceptedStreams, rejectedStreams } from "./support/stream-manifests.ts";

const target = { group: "gateway.networking.k8s.io", kind: "HTTPRoute", name: "chat" };
const entry = { requests: 10, unit: "Minutes" };
const descriptor = { entries: [{ name: "user", expression: 'request.headers["x-user"]' }] };
const global = { backendRef: { name: "ratelimit", port: 8081 }, domain: "chat", descriptors: [descriptor] };
const many = <T>(count: number, item: T): readonly T[] => Array.from({ length: count }, () => item);

const policy = (rateLimit: object, targetRefs: readonly object[] = [target]) => ({
  apiVersion: "gatewayproxy.dev/v1alpha1",
  kind: "ProxyPolicy",
  metadata: { name: "limits", namespace: "default" },
  spec: { targetRefs, traffic: { rateLimit } },
});
const local = (parts: object) => policy({ local: [parts] });
const globally = (parts: object) => policy({ global: { ...global, ...parts } });
const overriding = (limitOverride: object) => ({ descriptors: [{ ...descriptor, limitOverride }] });
const backend = (spec: object) => ({
  apiVersion: "gatewayproxy.dev/v1alpha1",
  kind: "Backend",
  metadata: { name: "x", namespace: "default" },
  spec,
});
const ai = (parts: object) => backend({ ai: { provider: { openai: {} }, ...parts } });

const pricesOf = (count: number): object =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`model-${at}`, { input: "1", output: "1" }]));

const authenticating = (authentication: object) => ({
  ...policy({}),
  spec: { targetRefs: [target], traffic: { authentication } },
});
const issuer = { issuer: "https://login.example.com", jwks: { uri: "https://login.example.com/jwks" } };
const byToken = (parts: object) => authenticating({ jwt: [{ ...issuer, ...parts }] });
const byKeySet = (jwks: object) => byToken({ jwks });
const byKey = (apiKeys: object) => authenticating({ apiKeys });
const secretRefs = [{ name: "acme" }];
const labels = (count: number): object =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`label-${at}`, "v"]));

const acceptedAuthentication: readonly (readonly [string, object])[] = [
  ["tokens by URL", byToken({ audiences: ["chat"] })],
  ["keys of a ConfigMap", byKeySet({ configMapRef: { name: "keys" } })],
  ["inline keys", byKeySet({ inline: '{"keys":[]}' })],
  ["a key set on loopback without TLS", byKeySet({ uri: "http://127.0.0.1:8080/jwks" })],
  ["API keys by name", byKey({ secretRefs })],
  ["API keys by labels", byKey({ secretSelector: { matchLabels: { "example.com/keys": "customers" } } })],
  [
    "fields of API keys",
    byKey({ secretRefs, from: [{ header: "X-Key" }, { header: "authorization", prefix: "Key " }] }),
  ],
  ["optional credentials that are removed", authenticating({ mode: "Optional", forward: "Remove", jwt: [issuer] })],
  [
    "authentication and limits",
    {
      ...policy({}),
      spec: { targetRefs: [target], traffic: { authentication: { jwt: [issuer] }, rateLimit: { local: [entry] } } },
    },
  ],
];

const rejectedAuthentication: readonly (readonly [string, object])[] = [
  ["authentication of nothing", authenticating({})],
  ["another mode of authentication", authenticating({ mode: "None", jwt: [issuer] })],
  ["another forward", authenticating({ forward: "Drop", jwt: [issuer] })],
  ["an unknown field of authentication", authenticating({ jwt: [issuer], realm: "a" })],
  ["no issuers", authenticating({ jwt: [] })],
  ["17 issuers", authenticating({ jwt: many(17, issuer) })],
  ["an empty issuer", byToken({ issuer: "" })],
  ["an issuer too long", byToken({ issuer: "a".repeat(2_049) })],
  ["no audiences", byToken({ audiences: [] })],
  ["an empty audience", byToken({ audiences: [""] })],
  ["17 audiences", byToken({ audiences: many(17, "a") })],
  ["an audience that is no list", byToken({ audiences: "chat" })],
  ["an issuer without keys", byToken({ jwks: undefined })],
  ["keys from nowhere", byKeySet({})],
  ["keys from two places", byKeySet({ uri: "https://a.example/jwks", inline: "{}" })],
  ["keys by plain text", byKeySet({ uri: "http://login.example.com/jwks" })],
  ["keys from a file", byKeySet({ uri: "file:///etc/passwd" })],
  ["credentials in the URL", byKeySet({ uri: "https://user:secret@login.example.com/jwks" })],
  ["a fragment in the URL", byKeySet({ uri: "https://login.example.com/jwks#a" })],
  ["a URL without host", byKeySet({ uri: "https:///jwks" })],
  ["empty inline keys", byKeySet({ inline: "" })],
  ["a ConfigMap in another namespace", byKeySet({ configMapRef: { name: "keys", namespace: "other" } })],
  ["a ConfigMap without name", byKeySet({ configMapRef: {} })],
  ["API keys of nothing", byKey({})],
  ["an empty list of Secrets", byKey({ secretRefs: [] })],
  ["a Secret in another namespace", byKey({ secretRefs: [{ name: "acme", namespace: "other" }] })],
  ["257 Secrets", byKey({ secretRefs: many(257, { name: "acme" }) })],
  ["a selector of nothing", byKey({ secretSelector: { matchLabels: {} } })],
  ["a selector of 9 labels", byKey({ secretSelector: { matchLabels: labels(9) } })],
  ["a selector by expression", byKey({ secretSelector: { matchExpressions: [] } })],
  ["a label value with spaces", byKey({ secretSelector: { matchLabels: { tier: "a b" } } })],
  ["a label value that is no text", byKey({ secretSelector: { matchLabels: { tier: 1 } } })],
  ["no fields of API keys", byKey({ secretRefs, from: [] })],
  ["9 fields of API keys", byKey({ secretRefs, from: many(9, { header: "a" }) })],
  ["a field that is no name", byKey({ secretRefs, from: [{ header: "x key" }] })],
  ["a prefix with a line break", byKey({ secretRefs, from: [{ header: "a", prefix: "a\n" }] })],
  ["an empty prefix", byKey({ secretRefs, from: [{ header: "a", prefix: "" }] })],
];

/** Fields of entries with expressions, buckets and shares, in `local` and in `fallback`. */
const acceptedEntries: readonly (readonly [string, object])[] = [
  ["a name", { ...entry, name: "per-user" }],
  ["the longest name", { ...entry, name: "a".repeat(63) }],
  ["a condition", { ...entry, when: 'route != "default/status"' }],
  ["a limit by expression", { ...entry, limit: "int(jwt.limit)" }],
  ["a cost", { ...entry, cost: "llm.stream ? 2 : 1" }],
  ["a cost of tokens", { tokens: 5, unit: "Hours", cost: "llm.inputTokens + 4 * llm.outputTokens" }],
  ["windows of several units", { ...entry, unit: "Weeks", every: 1_000 }],
  ["a bucket", { ...entry, bucket: "team-a" }],
  ["a share", { ...entry, shareAcrossReplicas: true }],
];

const rejectedEntries: readonly (readonly [string, object])[] = [
  ...["", "Per-User", "1st", "a_b", "a-", "-a", "a".repeat(64)].flatMap((name) => [
    [`the name ${JSON.stringify(name)}`, { ...entry, name }] as const,
    [`the bucket ${JSON.stringify(name)}`, { ...entry, bucket: name }] as const,
  ]),
  ...(["when", "limit", "cost", "key"] as const).flatMap((field) => [
    [`an empty ${field}`, { ...entry, [field]: "" }] as const,
    [`a ${field} that is no text`, { ...entry, [field]: 1 }] as const,
    [`a ${field} too long`, { ...entry, [field]: "a".repeat(1_025) }] as const,
  ]),
  ["windows of 0 units", { ...entry, every: 0 }],
  ["windows of too many units", { ...entry, every: 1_001 }],
  ["windows of half a unit", { ...entry, every: 1.5 }],
  ["a burst beside limit", { ...entry, burst: 1, limit: "1" }],
  ["a burst beside bucket", { ...entry, burst: 1, bucket: "a" }],
  ["a share that is no truth value", { ...entry, shareAcrossReplicas: "yes" }],
];
const several = (parts: object) => backend({ ai: parts });
const provider = (name: string, parts: object = {}) => ({ backendRef: { name }, ...parts });

const accepted: readonly (readonly [string, object])[] = [
  ...acceptedAuthentication,
  ...acceptedEntries.flatMap(([name, fields]) => [
    [name, local(fields)] as const,
    [`${name} in fallback`, globally({ fallback: [fields] })] as const,
  ]),
  ["requests", local({ requests: 1, unit: "Seconds" })],
  ["requests with burst", local({ ...entry, burst: 0 })],
  ["tokens with key and mode", local({ tokens: 1, unit: "Hours", key: "source.address", mode: "Shadow" })],
  ["the largest amounts", local({ requests: 2_147_483_647, burst: 2_147_483_647, unit: "Hours" })],
  ["a sliding window", local({ ...entry, window: "Sliding" })],
  ["connections", policy({ local: [{ connections: 4, key: "source.address" }] }, [{ ...target, kind: "TCPRoute" }])],
  ["sessions of a rule", policy({ local: [{ connections: 4 }] }, [{ ...target, kind: "UDPRoute", sectionName: "a" }])],
  ["a bucket of connections", policy({ local: [{ connections: 4, bucket: "b" }] }, [{ ...target, kind: "TLSRoute" }])],
  ["requests in progress", local({ concurrent: 4, key: "source.address", limit: "8" })],
  ["spend", local({ spend: "25.00", unit: "Months", window: "Calendar", unpriced: "Allow", cost: "llm.cost" })],
  ["the largest spend", local({ spend: "999999999.999999", unit: "Hours" })],
  ["the smallest spend", local({ spend: "0.000001", unit: "Hours", unpriced: "Refuse" })],
  ["the largest spend of a sliding window", local({ spend: "4294.967295", unit: "Hours", window: "Sliding" })],
  ["spend in fallback", globally({ fallback: [{ spend: "1", unit: "Hours", unpriced: "Allow" }] })],
  ["a reservation of tokens", local({ tokens: 1, unit: "Hours", reserve: "Estimate", key: "source.address" })],
  [
    "a reservation of a descriptor",
    globally({ descriptors: [{ ...descriptor, unit: "Tokens", reserve: "Estimate" }] }),
  ],
  ["a reservation of spend", local({ spend: "1", unit: "Hours", window: "Sliding", reserve: "Estimate" })],
  ["prices", ai({ prices: { a: { input: "0.25", cachedInput: "0.025", cacheCreation: "1", output: "2.00" } } })],
  [
    "the largest and the smallest price",
    ai({ prices: { a: { input: "999999.999999", output: "0" } }, currency: "USD" }),
  ],
  ["128 prices", ai({ prices: pricesOf(128) })],
  ["days of UTC", local({ requests: 1, unit: "Days", window: "Calendar" })],
  ["months of a time zone", local({ tokens: 1, unit: "Months", window: "Calendar", timeZone: "Europe/Berlin" })],
  ["a time zone by an old name", local({ tokens: 1, unit: "Weeks", window: "Calendar", timeZone: "US/Eastern" })],
  ["16 entries", policy({ local: many(16, entry) })],
  [
    "16 targets",
    policy(
      { local: [entry] },
      many(16, target).map((ref, at) => ({ ...ref, name: `r${at}` })),
    ),
  ],
  ["a target whole and in part", policy({ local: [entry] }, [target, { ...target, sectionName: "a" }])],
  ["a global limit", globally({})],
  ["a global limit by address", globally({ backendRef: undefined, address: "[::1]:8081" })],
  ["a global limit by a Backend", globally({ backendRef: { group: "gatewayproxy.dev", kind: "Backend", name: "x" } })],
  ["the longest timeout", globally({ timeout: "1m" })],
  [
    "fallback entries",
    globally({
      fallback: [
        { tokens: 5, unit: "Hours" },
        { ...entry, shareAcrossReplicas: true },
      ],
    }),
  ],
  [
    "an override of 0",
    globally({ descriptors: [{ ...descriptor, limitOverride: { requestsPerUnit: 0, unit: "Day" } }] }),
  ],
  ...acceptedResponses.map(([name, fields]) => [name, policy({ local: [entry], ...fields })] as const),
  ["a condition", globally({ descriptors: [{ ...descriptor, when: 'jwt.tier != "internal"' }] })],
  ["the largest override", globally(overriding({ requestsPerUnit: 4_294_967_295, unit: "Day" }))],
  ["an override by expression", globally(overriding({ requestsPerUnit: "int(jwt.rpm)", unit: "Minute" }))],
  ["an override with a default", globally(overriding({ requestsPerUnit: "int(jwt.rpm)", default: 0, unit: "Minute" }))],
  ["a static address", backend({ static: { host: "10.0.0.1", port: 80 } })],
  ["an IPv6 address", backend({ static: { host: "fd00::1", port: 65_535, tls: { hostname: "a.com" } } })],
  ["a provider", ai({ auth: { secretRef: { name: "s" } }, path: "/v1", host: "a.com", port: 1, tls: {} })],
  ["several providers", several({ providers: [provider("a", { priority: 15, weight: 1_000_000 }), provider("b")] })],
  ["one of several providers", several({ providers: [provider("a")] })],
  ["16 providers", several({ providers: Array.from({ length: 16 }, (_, at) => provider(`a${at}`)) })],
  [
    "timeouts of failover",
    several({ providers: [provider("a")], failover: { firstByteTimeout: "1ms", streamIdleTimeout: "60m" } }),
  ],
  ["no timeout of failover", several({ providers: [provider("a")], failover: {} })],
  ["the client's credentials", ai({ auth: { passthrough: {} } })],
  ["128 models", ai({ models: Array.from({ length: 128 }, (_, at) => ({ name: `m${at}`, as: "same" })) })],
];

const rejected: readonly (readonly [string, object])[] = [
  ...rejectedAuthentication,
  ...rejectedEntries.flatMap(([name, fields]) => [
    [name, local(fields)] as const,
    [`${name} in fallback`, globally({ fallback: [fields] })] as const,
  ]),
  ["a name twice", policy({ local: many(2, { ...entry, name: "a" }) })],
  ["a policy of nothing", { ...policy({}), spec: { targetRefs: [target], traffic: {} } }],
  ["a descriptor of another unit", globally({ descriptors: [{ ...descriptor, unit: "Bytes" }] })],
  ["an empty cost of a descriptor", globally({ descriptors: [{ ...descriptor, cost: "" }] })],
  [
    "another ifAbsent",
    globally({ descriptors: [{ entries: [{ name: "a", expression: "source.address", ifAbsent: "Deny" }] }] }),
  ],
  ["no amount", local({ unit: "Minutes" })],
  ["two amounts", local({ ...entry, tokens: 5 })],
  ["an amount of 0", local({ requests: 0, unit: "Hours" })],
  ["an amount too large", local({ tokens: 2_147_483_648, unit: "Hours" })],
  ["a fractional amount", local({ tokens: 1.5, unit: "Hours" })],
  ["an amount as a string", local({ requests: "10", unit: "Hours" })],
  ["a negative burst", local({ ...entry, burst: -1 })],
  ["a burst of tokens", local({ tokens: 5, unit: "Hours", burst: 1 })],
  ["no unit", local({ requests: 1 })],
  ["another unit", local({ requests: 1, unit: "Years" })],
  ["spend that is a number", local({ spend: 25, unit: "Hours" })],
  ["spend of 0", local({ spend: "0.00", unit: "Hours" })],
  ["negative spend", local({ spend: "-1", unit: "Hours" })],
  ["spend with 7 digits after the point", local({ spend: "0.0000001", unit: "Hours" })],
  ["spend with an exponent", local({ spend: "1e3", unit: "Hours" })],
  ["spend too large", local({ spend: "1000000000", unit: "Hours" })],
  ["spend too large for a sliding window", local({ spend: "4294.967296", unit: "Hours", window: "Sliding" })],
  ["spend without a unit", local({ spend: "1" })],
  ["spend with a burst", local({ spend: "1", unit: "Hours", burst: 1 })],
  ["spend, and requests", local({ ...entry, spend: "1" })],
  ["unpriced without spend", local({ ...entry, unpriced: "Allow" })],
  ["another unpriced", local({ spend: "1", unit: "Hours", unpriced: "Deny" })],
  ["a reservation of requests", local({ ...entry, reserve: "Estimate" })],
  ["a reservation of requests in progress", local({ concurrent: 1, reserve: "Estimate" })],
  ["a reservation of requests by a descriptor", globally({ descriptors: [{ ...descriptor, reserve: "Estimate" }] })],
  [
    "another reservation of a descriptor",
    globally({ descriptors: [{ ...descriptor, unit: "Tokens", reserve: "Maximum" }] }),
  ],
  ["another reservation", local({ tokens: 1, unit: "Hours", reserve: "Maximum" })],
  ["no prices", ai({ prices: {} })],
  ["129 prices", ai({ prices: pricesOf(129) })],
  ["a price of a model without a name", ai({ prices: { "": { input: "1", output: "1" } } })],
  ["a price of a model whose name is too long", ai({ prices: { ["a".repeat(257)]: { input: "1", output: "1" } } })],
  ["a price without output", ai({ prices: { a: { input: "1" } } })],
  ["a price that is a number", ai({ prices: { a: { input: 1, output: "1" } } })],
  ["a price that is negative", ai({ prices: { a: { input: "-1", output: "1" } } })],
  ["a price with 7 digits after the point", ai({ prices: { a: { input: "0.0000001", output: "1" } } })],
  ["a price too large", ai({ prices: { a: { input: "1000000", output: "1" } } })],
  ["an unknown field of a price", ai({ prices: { a: { input: "1", output: "1", reasoning: "1" } } })],
  ["a currency in lower case", ai({ currency: "usd" })],
  ["0 requests in progress", local({ concurrent: 0 })],
  ["0 connections", local({ connections: 0 })],
  ["requests, and connections", local({ ...entry, connections: 1 })],
  ["a unit of connections", local({ connections: 1, unit: "Seconds" })],
  ["a window of connections", local({ connections: 1, window: "Fixed" })],
  ["a limit of connections by expression", local({ connections: 1, limit: "1" })],
  ["a cost of connections", local({ connections: 1, cost: "1" })],
  ["a burst of connections", local({ connections: 1, burst: 1 })],
  ["a reservation of connections", local({ connections: 1, reserve: "Estimate" })],
  ["connections in a fallback", globally({ fallback: [{ connections: 1 }] })],
  ["requests, and requests in progress", local({ ...entry, concurrent: 1 })],
  ["a unit of requests in progress", local({ concurrent: 1, unit: "Seconds" })],
  ["a window of requests in progress", local({ concurrent: 1, window: "Fixed" })],
  ["a cost of requests in progress", local({ concurrent: 1, cost: "1" })],
  ["a burst of requests in progress", local({ concurrent: 1, burst: 1 })],
  ["months without a calendar", local({ requests: 1, unit: "Months" })],
  ["hours of a calendar", local({ requests: 1, unit: "Hours", window: "Calendar" })],
  ["another window", local({ ...entry, window: "Rolling" })],
  ["a burst in a sliding window", local({ ...entry, burst: 1, window: "Sliding" })],
  ["a time zone without a calendar", local({ ...entry, timeZone: "UTC" })],
  ...["Europe/Berlim", "europe/berlin", "+01:00", "Local", "", "../etc/passwd"].map(
    (timeZone) =>
      [
        `the time zone ${JSON.stringify(timeZone)}`,
        local({ requests: 1, unit: "Days", window: "Calendar", timeZone }),
      ] as const,
  ),
  ["another mode", local({ ...entry, mode: "Off" })],
  ["an unknown field", local({ ...entry, burts: 5 })],
  ["an empty key", local({ ...entry, key: "" })],
  ["a key too long", local({ ...entry, key: `"${"a".repeat(1024)}"` })],
  ["no limits", policy({})],
  ["an empty list of limits", policy({ local: [] })],
  ["17 entries", policy({ local: many(17, entry) })],
  ["no targets", policy({ local: [entry] }, [])],
  [
    "17 targets",
    policy(
      { local: [entry] },
      many(17, target).map((ref, at) => ({ ...ref, name: `r${at}` })),
    ),
  ],
  ["a target twice", policy({ local: [entry] }, [target, target])],
  ["a section twice", policy({ local: [entry] }, many(2, { ...target, sectionName: "a" }))],
  ["a target of another kind", policy({ local: [entry] }, [{ ...target, kind: "Service" }])],
  ["a target of another group", policy({ local: [entry] }, [{ ...target, group: "" }])],
  ["a target without name", policy({ local: [entry] }, [{ ...target, name: "" }])],
  ["a target in another namespace", policy({ local: [entry] }, [{ ...target, namespace: "x" }])],
  ["a global limit without service", globally({ backendRef: undefined })],
  ["a global limit of two services", globally({ address: "127.0.0.1:8081" })],
  ["a Service without port", globally({ backendRef: { name: "ratelimit" } })],
  ["an address without port", globally({ backendRef: undefined, address: "127.0.0.1" })],
  ["an address whose port is too large", globally({ backendRef: undefined, address: "127.0.0.1:70000" })],
  ["no domain", globally({ domain: undefined })],
  ["a timeout without unit", globally({ timeout: "100" })],
  ["a timeout of 0", globally({ timeout: "0ms" })],
  ["a timeout too long", globally({ timeout: "61s" })],
  ["another failure mode", globally({ failureMode: "FailOpen" })],
  ["no descriptors", globally({ descriptors: [] })],
  ["17 descriptors", globally({ descriptors: many(17, descriptor) })],
  ["a descriptor without entries", globally({ descriptors: [{ entries: [] }] })],
  ["an entry without name", globally({ descriptors: [{ entries: [{ name: "", expression: "source.address" }] }] })],
  [
    "a negative override",
    globally({ descriptors: [{ ...descriptor, limitOverride: { requestsPerUnit: -1, unit: "Day" } }] }),
  ],
  [
    "an override by the week",
    globally({ descriptors: [{ ...descriptor, limitOverride: { requestsPerUnit: 1, unit: "Week" } }] }),
  ],
  ["an empty condition", globally({ descriptors: [{ ...descriptor, when: "" }] })],
  ["a condition that is no text", globally({ descriptors: [{ ...descriptor, when: true }] })],
  ["a condition too long", globally({ descriptors: [{ ...descriptor, when: `"${"a".repeat(1024)}" == ""` }] })],
  ["an override without amount", globally(overriding({ unit: "Day" }))],
  ["an override of more than a uint32", globally(overriding({ requestsPerUnit: 4_294_967_296, unit: "Day" }))],
  ["a fractional override", globally(overriding({ requestsPerUnit: 1.5, unit: "Day" }))],
  ["an override that is empty", globally(overriding({ requestsPerUnit: "", unit: "Day" }))],
  ["an override too long", globally(overriding({ requestsPerUnit: `1${" ".repeat(1024)}`, unit: "Day" }))],
  ["an override that is a truth value", globally(overriding({ requestsPerUnit: true, unit: "Day" }))],
  ["an override that is a list", globally(overriding({ requestsPerUnit: [1], unit: "Day" }))],
  ["a default beside a number", globally(overriding({ requestsPerUnit: 1, default: 1, unit: "Day" }))],
  ["a negative default", globally(overriding({ requestsPerUnit: "1", default: -1, unit: "Day" }))],
  ["a default that is text", globally(overriding({ requestsPerUnit: "1", default: "1", unit: "Day" }))],
  ["a default too large", globally(overriding({ requestsPerUnit: "1", default: 4_294_967_296, unit: "Day" }))],
  ["a fallback without amount", globally({ fallback: [{ unit: "Hours" }] })],
  ["a fallback with a mode", globally({ fallback: [{ ...entry, mode: "Shadow" }] })],
  ...rejectedResponses.map(([name, fields]) => [name, policy({ local: [entry], ...fields })] as const),
  ["an empty Backend", backend({})],
  ["a Backend of two forms", backend({ static: { host: "a", port: 1 }, ai: { provider: { openai: {} } } })],
  ["neither provider nor providers", several({ host: "a.com" })],
  ["a provider and providers", ai({ providers: [provider("a")] })],
  ["providers without one", several({ providers: [] })],
  ["17 providers", several({ providers: Array.from({ length: 17 }, (_, at) => provider(`a${at}`)) })],
  ["a provider twice", several({ providers: [provider("a"), provider("b"), provider("a")] })],
  ["a provider in another namespace", several({ providers: [{ backendRef: { name: "a", namespace: "b" } }] })],
  ["a provider without a name", several({ providers: [{ backendRef: {} }] })],
  ["a provider without a reference", several({ providers: [{ priority: 1 }] })],
  ["a priority below 0", several({ providers: [provider("a", { priority: -1 })] })],
  ["a priority above 15", several({ providers: [provider("a", { priority: 16 })] })],
  ["a weight of 0", several({ providers: [provider("a", { weight: 0 })] })],
  ["a weight too large", several({ providers: [provider("a", { weight: 1_000_001 })] })],
  ["a weight that is no integer", several({ providers: [provider("a", { weight: 1.5 })] })],
  ["failover of one provider", ai({ failover: {} })],
  ["a timeout of 0", several({ providers: [provider("a")], failover: { firstByteTimeout: "0s" } })],
  ["a timeout above an hour", several({ providers: [provider("a")], failover: { streamIdleTimeout: "61m" } })],
  ["a timeout in days", several({ providers: [provider("a")], failover: { firstByteTimeout: "1d" } })],
  ...Object.entries({
    ...{ host: "a.com", port: 443, path: "/v1", auth: { passthrough: {} }, upgrades: "Allow" },
    ...{ deferredWork: "Allow", otherEndpoints: "Allow", usageChunk: "Merge", tls: {}, models: [{ name: "m" }] },
  }).map(
    ([field, value]) => [`${field} beside providers`, several({ providers: [provider("a")], [field]: value })] as const,
  ),
  ["no provider", ai({ provider: {} })],
  ["two providers", ai({ provider: { openai: {}, anthropic: {} } })],
  ["an unknown provider", ai({ provider: { opnai: {} } })],
  ["an empty list of models", ai({ models: [] })],
  ["129 models", ai({ models: Array.from({ length: 129 }, (_, at) => ({ name: `m${at}` })) })],
  ["a model twice", ai({ models: [{ name: "a" }, { name: "a", as: "b" }] })],
  ["a model without a name", ai({ models: [{ as: "b" }] })],
  ["a model whose name for the provider is too long", ai({ models: [{ name: "a", as: "b".repeat(257) }] })],
  ["models beside the model of the provider", ai({ provider: { openai: { model: "a" } }, models: [{ name: "b" }] })],
  ["no credentials", ai({ auth: {} })],
  ["a key outside of a Secret", ai({ auth: { apiKey: "sk-1" } })],
  ["a query in the path", ai({ path: "/v1?a=b" })],
  ["a URL as host", backend({ static: { host: "http://a", port: 1 } })],
  ["a host too long", backend({ static: { host: "a".repeat(254), port: 1 } })],
  ["a port in the host", backend({ static: { host: "a:80", port: 1 } })],
  ["an IPv6 address with a zone", backend({ static: { host: "fe80::1%eth0", port: 1 } })],
  ["an IPv4-mapped IPv6 address", backend({ static: { host: "::ffff:10.0.0.1", port: 1 } })],
  ["no port", backend({ static: { host: "a" } })],
  ["a port of 0", backend({ static: { host: "a", port: 0 } })],
  ["a server name in upper case", backend({ static: { host: "a", port: 1, tls: { hostname: "A.com" } } })],
];

describeCluster("the API server and the parser", (cluster) => {
  describe("both accept", () => {
    test.each([...accepted, ...acceptedRoutes, ...acceptedStreams])("%s", async (_, manifest) => {
      expect(errorsOf(manifest)).toEqual([]);
      expect(await validate(cluster, manifest)).toBe("201");
    });
  });

  describe("both reject", () => {
    test.each([...rejected, ...rejectedRoutes, ...rejectedStreams])("%s", async (_, manifest) => {
      expect(errorsOf(manifest)).not.toEqual([]);
      // 400 for unknown fields, 422 for values that the schema rejects.
      expect(await validate(cluster, manifest)).toMatch(/^4(00|22)/);
    });
  });

  test.each([
    ["a local limit", local(entry), { local: [{ mode: "Enforce" }] }],
    ["a global limit", globally({}), { global: { mode: "Enforce", failureMode: "Local", timeout: "100ms" } }],
    ["a response to denials", policy({ local: [entry], denied: { status: 503 } }), { denied: { format: "Text" } }],
  ])("give %s the same defaults", async (_, manifest, defaults) => {
    const create = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
    const stored = JSON.parse(await cluster.kubectl(create, JSON.stringify(manifest))) as typeof manifest;
    expect(stored.spec.traffic.rateLimit).toMatchObject(defaults);
    expect(specOf(stored)).toEqual(specOf(manifest));
  });

  test("differ on an expression that does not compile: only the parser rejects it", async () => {
    const manifest = local({ ...entry, key: "request.heders.x" });
    expect(errorsOf(manifest)).toHaveLength(1);
    expect(await validate(cluster, manifest)).toBe("201");
  });
});

describeCluster("kubectl", (cluster) => {
  test("lists the kinds of this API with their short names and categories, and marks the policies", async () => {
    const table = await cluster.kubectl([
      "api-resources",
      "--api-group=gatewayproxy.dev",
      "--no-headers",
      "-o",
      "wide",
    ]);
    const rows = table
      .trim()
      .split("\n")
      .map((row) => row.split(/ +/));
    expect(rows).toEqual([
      ["backends", "gatewayproxy.dev/v1alpha1", "true", "Backend", expect.anything(), "gateway-api,gatewayproxy"],
      [
        "proxypolicies",
        "ppol",
        "gatewayproxy.dev/v1alpha1",
        "true",
        "ProxyPolicy",
        expect.anything(),
        "gateway-api,gatewayproxy",
      ],
    ]);
    const direct = ["-l", "gateway.networking.k8s.io/policy=Direct"];
    const policies = await cluster.kubectl(["get", "crd", ...direct, "-o", "name"]);
    expect(policies).toContain("customresourcedefinition.apiextensions.k8s.io/proxypolicies.gatewayproxy.dev\n");
  });

  test.each([
    ["proxypolicy.spec.traffic.rateLimit.local.burst", /DESCRIPTION:\n +\S/],
    ["backend.spec.ai.auth", /DESCRIPTION:\n +\S/],
  ])("explains %s", async (field, text) => {
    expect(await cluster.kubectl(["explain", field])).toMatch(text);
  });
});

/** The spec as the parser returns it. */
function specOf(manifest: object): unknown {
  const parsed = parseResource(manifest);
  if (parsed.kind !== "resource" || !("spec" in parsed.resource)) throw new Error(JSON.stringify(parsed));
  return parsed.resource.spec;
}

const plurals = {
  HTTPRoute: "httproutes",
  GRPCRoute: "grpcroutes",
  ProxyPolicy: "proxypolicies",
  Backend: "backends",
  TLSRoute: "tlsroutes",
  TCPRoute: "tcproutes",
  UDPRoute: "udproutes",
} as const;

/** The response of the API server to a manifest: the status, and the message of a rejection. */
async function validate({ kubeconfig }: Cluster, manifest: object): Promise<string> {
  // The client library reads it there.
  process.env["KUBECONFIG"] = kubeconfig;
  const found = await findCluster({ env: { KUBECONFIG: kubeconfig } });
  if (!found.ok) throw new Error(found.problems.map(({ message }) => message).join());
  const connection = new ClusterConnection(found.value);
  const { apiVersion, kind } = manifest as { readonly apiVersion: string; readonly kind: keyof typeof plurals };
  const { status, json } = await connection.requestJson({
    method: "POST",
    path: `/apis/${apiVersion}/namespaces/default/${plurals[kind]}`,
    query: { dryRun: "All", fieldValidation: "Strict" },
    body: manifest,
  });
  connection.close();
  const message = typeof json === "object" && json !== null && "message" in json ? String(json.message) : "";
  return message === "" ? String(status) : `${status} ${message}`;
}
