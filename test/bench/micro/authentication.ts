/**
 * Measures the authentication of a request, without the network: `npm exec -- node --expose-gc
 * test/bench/micro/authentication.ts`. Prints the microseconds of a check for tokens that are verified, for tokens seen
 * first beside the check of the library alone, and for API keys; and the memory that 100,000 distinct tokens, unknown
 * API keys and keys of a limit take. Tokens seen first are measured in CPU time, since their signatures are checked on
 * other threads.
 */
import { createHash, createPublicKey, type KeyObject } from "node:crypto";
import { AddressGuard, unrestricted } from "@gatewayproxy/runtime/address-rules";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { jwtVerify } from "jose";
import { Authenticators } from "../../../proxy/src/authentication/authenticators.ts";
import type { Authenticator } from "../../../proxy/src/authentication/authenticator.ts";
import type { RequestView } from "../../../proxy/src/cel/request-view.ts";
import type { LocalLimit } from "../../../proxy/src/ir/limit.ts";
import { CounterTable, createCounters, defaultCounters } from "../../../proxy/src/policy/ratelimit/counter-table.ts";
import { compileLimits } from "../../../proxy/src/policy/ratelimit/local-limiter.ts";
import type { ApiKey, Authentication, PublicJwk } from "../../../proxy/src/ir/authentication.ts";
import { signingKey, type SigningKey } from "../../support/tokens.ts";

const issuer = "https://login.example.com";
const exp = Math.floor(Date.now() / 1_000) + 86_400;

function claims(subject: string): Readonly<Record<string, unknown>> {
  const scopes = Array.from({ length: 12 }, (_, at) => `scope-${at}:read`);
  return { iss: issuer, sub: subject, aud: ["chat"], exp, tenant: "default", tier: "gold", scope: scopes.join(" ") };
}

function authenticatorOf(key: SigningKey, keys: readonly ApiKey[] = []): Authenticator {
  const authentication: Authentication = {
    ...{ policy: "default/chat", target: "HTTPRoute/default/chat", mode: "Required", forward: "Keep" },
    issuers: [{ issuer, audiences: ["chat"], keys: { kind: "keys", keys: [key.jwk as unknown as PublicJwk] } }],
    apiKeys: { from: [{ header: "x-api-key" }, { header: "authorization", prefix: "Bearer " }], keys },
  };
  const authenticators = new Authenticators({
    ...{
      clock: systemClock,
      random: Math.random,
      addresses: new AddressGuard(unrestricted),
      onFetched: () => undefined,
    },
  });
  const authenticator = authenticators.compile([authentication]);
  if (authenticator === undefined) throw new Error("nothing was compiled");
  return authenticator;
}

/** Header sections as of a client of an LLM API. Each is a new string, as the parser makes it. */
function headersOf(name: string, value: string): readonly string[] {
  const others = { host: "chat.example.com", "content-type": "application/json", accept: "*/*", "user-agent": "sdk/1" };
  return [...Object.entries(others).flat(), name, Buffer.from(value).toString("latin1")];
}

/** Microseconds of the median of five rounds. */
function microseconds(count: number, run: (at: number) => unknown): number {
  const rounds = Array.from({ length: 5 }, () => {
    const start = performance.now();
    for (let at = 0; at < count; at++) run(at);
    return ((performance.now() - start) * 1_000) / count;
  });
  return medianOf(rounds);
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

/** Microseconds of CPU time, of all threads. */
async function cpuMicrosecondsOf(count: number, run: (at: number) => unknown): Promise<number> {
  const start = process.cpuUsage();
  for (let at = 0; at < count; at++) await run(at);
  const { user, system } = process.cpuUsage(start);
  return (user + system) / count;
}

/** Bytes of the heap and of buffers that `run` leaves behind. */
async function bytesOf(run: () => unknown): Promise<number> {
  const before = await usedBytes();
  await run();
  return (await usedBytes()) - before;
}

/** Collects until nothing more is freed: what finalizers release is only collected in a later turn. */
async function usedBytes(): Promise<number> {
  if (globalThis.gc === undefined) throw new Error("start node with --expose-gc");
  let [before, used] = [Number.POSITIVE_INFINITY, Number.MAX_VALUE];
  while (before - used > 65_536) {
    before = used;
    await new Promise((resolve) => setImmediate(resolve));
    globalThis.gc();
    const { heapUsed, external } = process.memoryUsage();
    used = heapUsed + external;
  }
  return used;
}

function show(name: string, value: number, unit = "µs"): void {
  process.stdout.write(`${name.padEnd(48)} ${value.toFixed(2).padStart(10)} ${unit}\n`);
}

for (const algorithm of ["ES256", "RS256"]) {
  const key = await signingKey(algorithm);
  const authenticator = authenticatorOf(key);
  const tokens = await Promise.all(Array.from({ length: 5_000 }, (_, at) => key.sign(claims(`user-${at}`))));
  const requests = tokens.map((token) => headersOf("authorization", `Bearer ${token}`));
  const publicKey: KeyObject = createPublicKey({ key: key.jwk, format: "jwk" });
  const figures = { bare: [] as number[], first: [] as number[] };
  const options = { algorithms: [algorithm], issuer, audience: ["chat"], requiredClaims: ["exp"] };
  // Interleaved, and without the first rounds, in which functions are compiled.
  for (let round = 0; round < 10; round++) {
    const from = round * 500;
    figures.bare.push(await cpuMicrosecondsOf(500, (at) => jwtVerify(tokens[from + at] ?? "", publicKey, options)));
    figures.first.push(
      await cpuMicrosecondsOf(500, (at) => authenticator.check(requests[from + at] ?? [], "192.0.2.1")),
    );
  }
  show(`${algorithm}: check by the library alone, CPU`, medianOf(figures.bare.slice(3)));
  show(`${algorithm}: token seen first, CPU`, medianOf(figures.first.slice(3)));
  // A new copy of the header in each request, as parsers make them.
  const copies = Array.from({ length: 200 }, (_, at) => headersOf("authorization", `Bearer ${tokens[at % 10] ?? ""}`));
  microseconds(20_000, (at) => authenticator.check(copies[at % 200] ?? [], "192.0.2.1"));
  let round = 0;
  const fresh = (): readonly string[] => headersOf("authorization", `Bearer ${tokens[round++ % 10] ?? ""}`);
  const copyUs = microseconds(50_000, () => fresh());
  const cachedUs = microseconds(50_000, () => authenticator.check(fresh(), "192.0.2.1"));
  show(`${algorithm}: verified token (${tokens[0]?.length} characters)`, cachedUs - copyUs);
}

const signing = await signingKey("ES256");
const texts = Array.from({ length: 4_096 }, (_, at) => createHash("sha256").update(`key ${at}`).digest("base64"));
const table = texts.map((text, at): ApiKey => {
  const attributes = { name: `customer-${at}`, namespace: "default", tier: "gold" };
  const sha256 = { secret: createHash("sha256").update(text).digest("base64") };
  return { sha256, source: { namespace: "default", name: `customer-${at}` }, attributes };
});
const withKeys = authenticatorOf(signing, table);
let next = 0;
const freshKey = (): readonly string[] => headersOf("x-api-key", texts[next++ % 100] ?? "");
microseconds(20_000, () => withKeys.check(freshKey(), "192.0.2.1"));
const keyCopyUs = microseconds(50_000, () => freshKey());
show("API key of 4,096", microseconds(50_000, () => withKeys.check(freshKey(), "192.0.2.1")) - keyCopyUs);

const many = 100_000;
/** Keeps what is measured. */
const held: unknown[] = [withKeys];
const view: RequestView = {
  ...{ method: "GET", path: "/", authority: "a.test", scheme: "http", rawHeaders: [], sourceAddress: "192.0.2.1" },
  ...{ route: "default/chat", gateway: "default/web" },
};
const bytesOfTokens = await bytesOf(async () => {
  for (let at = 0; at < many; at++) {
    const token = await signing.sign(claims(`user-${at}`));
    await withKeys.check(headersOf("authorization", `Bearer ${token}`), "192.0.2.1");
  }
});
show("100,000 distinct tokens", bytesOfTokens / 2 ** 20, "MiB");
const bytesOfUnknown = await bytesOf(() => {
  for (let at = 0; at < many; at++) void withKeys.check(headersOf("x-api-key", `unknown-${at}`), "192.0.2.1");
});
show("100,000 distinct unknown API keys", bytesOfUnknown / 2 ** 20, "MiB");
const bytesOfCounters = await bytesOf(() => {
  const counters = new CounterTable(createCounters(defaultCounters, 1), 1, systemClock);
  const limit: LocalLimit = {
    ...{ counter: "c", policy: "default/chat", entry: 0, target: "HTTPRoute/default/chat", counts: "requests" },
    ...{ amount: 10, burst: 0, unit: "Hours", key: "jwt.sub", mode: "Enforce" },
  };
  const set = compileLimits([limit], counters);
  for (let at = 0; at < many; at++) {
    const known = { jwt: new Map([["sub", `user-${at}`]]) };
    set.decide({ ...view, identities: { gateway: known, route: known } }, at);
  }
  held.push(counters);
});
show("100,000 distinct keys of a limit", bytesOfCounters / 2 ** 20, "MiB");
if (held.length !== 2) throw new Error("something that was measured was released");
