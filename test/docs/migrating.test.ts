/**
 * The page docs/migrating.md: `proxyctl convert` writes the manifests of the page, and each of them, served in front of
 * the mock LLM, limits as the object before it.
 */
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { startMockLlm } from "../../examples/mock-llm/src/mock-llm.ts";
import { proxyctl } from "../../proxyctl/src/testing/run.ts";
import { gatewayManifest, manifests, routeManifest, serviceManifest, startGateway } from "../support/gateway.ts";
import { FixedClock, startInProcess } from "../support/ratelimit-in-process.ts";
import { repository } from "./markdown.ts";

const sections = readFileSync(join(repository, "docs/migrating.md"), "utf8").split(/^## /m);

/** Returns the blocks of YAML of a section. */
function blocksOf(heading: string): readonly string[] {
  const section = sections.find((each) => each.startsWith(`${heading}\n`));
  if (section === undefined) throw new Error(`the page has no section ${heading}`);
  return [...section.matchAll(/^```yaml\n([^]*?)^```/gm)].map(([, block = ""]) => block);
}

const objectsOf = (text: string): readonly unknown[] => parseAllDocuments(text).map((each) => each.toJS() as unknown);

interface Request {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object;
}

/** Tokens that the response reports. */
const costing = (tokens: number) => ({ "x-mock-prompt-tokens": "0", "x-mock-completion-tokens": String(tokens) });

/** A response whose head arrives long before its end. */
const slow: Request = { headers: { "x-mock-delay-ms": "60000" }, body: { stream: true } };

/** Disconnects while a response is received. */
const cancel = async (response: Response): Promise<void> => await response.body?.cancel();

interface Served {
  readonly route: string;
  readonly gateway?: string;
  /** Manifests besides those of the page. */
  readonly more?: readonly string[];
}

/** Serves manifests of the page on a route to the mock LLM. */
async function serve(block: string, { route, gateway: name = "web", more = [] }: Served) {
  const mock = await startMockLlm({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => mock.close());
  const onMock = `provider: { openai: {} }\n    host: 127.0.0.1\n    port: ${mock.port}`;
  const llm = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm }
spec:
  ai:
    ${onMock}
`;
  const rule = "backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]";
  const gateway = await startGateway(
    manifests(
      gatewayManifest().replace("name: web", `name: ${name}`),
      routeManifest(route, [rule]).replace("name: web", `name: ${name}`),
      block.replace("provider: { openai: {} }", onMock),
      ...(block.includes("kind: Backend") ? [] : [llm]),
      ...more,
    ),
    // The mock LLM would generate for minutes what its client has left.
    { abandonedResponses: { timeoutMs: 0, maxBytes: 0, maxResponses: 0 } },
  );
  const send = ({ headers = {}, body = {} }: Request = {}) =>
    fetch(`${gateway.url()}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ model: "gpt-5-mini", messages: [], ...body }),
    });
  /** Resolves with the status when the response is complete. */
  const status = async (sent?: Request): Promise<number> => {
    const response = await send(sent);
    await response.arrayBuffer();
    return response.status;
  };
  /** Sends requests one after the other, and counts those that were allowed. The others must be denied by a limit. */
  const allowedOf = async (count: number, sent?: Request): Promise<number> => {
    let allowed = 0;
    for (let i = 0; i < count; i++) {
      const code = await status(sent);
      expect([200, 429]).toContain(code);
      if (code === 200) allowed++;
    }
    return allowed;
  };
  /** Holds so many requests open, of which the next is denied until one ends. */
  const expectAtOnce = async (count: number, sent: Request): Promise<void> => {
    const held = { headers: { ...slow.headers, ...sent.headers }, body: { ...slow.body } };
    const open = await Promise.all(Array.from({ length: count }, () => send(held)));
    expect(open.map((each) => each.status)).toEqual(Array<number>(count).fill(200));
    expect(await status(sent)).toBe(429);
    await Promise.all(open.slice(0, 1).map(cancel));
    await expect.poll(() => status(sent)).toBe(200);
    await Promise.all(open.slice(1).map(cancel));
  };
  return { gateway, send, status, allowedOf, expectAtOnce };
}

/** Converts an object of the page. What is left out fails the test. */
async function converted(before: string) {
  const { exitCode, stdout, stderr } = await proxyctl(["convert", "-f", "-"], { input: before });
  expect(stderr).not.toContain("left out:");
  expect(exitCode).toBe(0);
  return { objects: objectsOf(stdout), notes: stderr.split("\n").filter((line) => line.startsWith("differs:")) };
}

/** The status of a request from another address of this machine. */
function statusFrom(localAddress: string, url: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = request(`${url}/v1/models`, { localAddress, agent: false }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode));
    });
    sent.on("error", reject).end();
  });
}

describe("ingress-nginx", () => {
  const [before = "", after = ""] = blocksOf("ingress-nginx");

  test("the Ingress is converted to the policy of the page", async () => {
    const { objects, notes } = await converted(before);
    expect(objects).toEqual(objectsOf(after));
    expect(notes).toEqual([expect.stringContaining("limit-connections]: requests in progress are counted")]);
  });

  test("limit-rps and limit-rpm: bursts and windows for each address", async () => {
    const { gateway, allowedOf } = await serve(after, { route: "shop-shop-example-com" });
    // 5 times 5, and one more, as nginx allows at once.
    expect(await allowedOf(30)).toBe(26);
    expect(await statusFrom("127.0.0.2", gateway.url())).toBe(200);
    let allowed = 26;
    for (let second = 1; second <= 55; second++) {
      gateway.clock.advance(1_000);
      allowed += await allowedOf(6);
    }
    expect(allowed).toBe(301);
    gateway.clock.advance(1_000);
    expect(await allowedOf(6)).toBe(0);
    gateway.clock.advance(4_000);
    expect(await allowedOf(6)).toBe(6);
  });

  test("limit-connections: requests in progress", async () => {
    const { expectAtOnce } = await serve(after, { route: "shop-shop-example-com" });
    await expectAtOnce(4, {});
  });
});

describe("Envoy Gateway: BackendTrafficPolicy", () => {
  const [before = "", after = "", withService = "", rules = ""] = blocksOf("Envoy Gateway: BackendTrafficPolicy");
  const of = (user: string, tokens = 0): Request => ({ headers: { "x-user-id": user, ...costing(tokens) } });

  test("the policy is converted to that of the page", async () => {
    const { objects, notes } = await converted(before);
    expect(objects).toEqual(objectsOf(after));
    expect(notes).toEqual([expect.stringContaining("each replica counts an equal share by itself")]);
  });

  test("requests and tokens of each user, and no limit without the header", async () => {
    const { gateway, status, allowedOf } = await serve(after, { route: "chat" });
    expect(await allowedOf(12, of("ada"))).toBe(10);
    expect(await allowedOf(12, { headers: costing(1_000) })).toBe(12);
    expect(await status(of("grace", 1_000))).toBe(200);
    expect(await status(of("grace"))).toBe(429);
    gateway.clock.advance(60_000);
    expect(await allowedOf(12, of("ada"))).toBe(10);
    expect(await status(of("grace"))).toBe(429);
    gateway.clock.advance(3_540_000);
    expect(await status(of("grace"))).toBe(200);
  });

  async function startService() {
    const folder = await mkdtemp(join(tmpdir(), "migrating-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    await mkdir(join(folder, "config"));
    await writeFile(join(folder, "config", "chat.yaml"), rules);
    return startInProcess({ BACKEND_TYPE: "memory", RUNTIME_ROOT: folder }, { clock: new FixedClock() });
  }

  test("the same in a rate limit service, with the limit of the fallback while it is unavailable", async () => {
    const service = await startService();
    const port = serviceManifest("ratelimit", [service.grpcPort]).replace("port: 80", "port: 8081");
    const { status, allowedOf } = await serve(withService, { route: "chat", more: [port] });
    expect(await allowedOf(12, of("ada"))).toBe(10);
    expect(await status(of("grace", 1_001))).toBe(200);
    // The charge follows the response.
    await expect.poll(() => status(of("grace"))).toBe(429);
    const stats = await service.stats();
    expect(stats.get("ratelimit.service.rate_limit.chat.user.total_hits")).toBeGreaterThan(11);
    expect(stats.get("ratelimit.service.rate_limit.chat.user_tokens.total_hits")).toBe(1_001);

    await service.stop();
    expect(await allowedOf(12, of("joan"))).toBe(10);
  });
});

describe("Kuadrant: TokenRateLimitPolicy", () => {
  const [, after = ""] = blocksOf("Kuadrant: RateLimitPolicy and TokenRateLimitPolicy");
  const bob = `
apiVersion: v1
kind: Secret
metadata: { name: bob, labels: { app: llm } }
stringData: { apiKey: key-of-bob }
`;
  const of = (key: string, tokens = 0): Request => ({
    headers: { authorization: `Bearer ${key}`, ...costing(tokens) },
  });

  test("tokens of each verified user in an hour", async () => {
    const { gateway, status } = await serve(after, { route: "any", gateway: "llm", more: [bob] });
    const alice = "replace-it-by-32-random-bytes";
    expect(await status()).toBe(401);
    expect(await status(of("another key"))).toBe(401);
    expect(await status(of(alice, 19_999))).toBe(200);
    expect(await status(of(alice, 1))).toBe(200);
    expect(await status(of(alice))).toBe(429);
    expect(await status(of("key-of-bob"))).toBe(200);
    gateway.clock.advance(3_600_000);
    expect(await status(of(alice))).toBe(200);
  });
});

describe("LiteLLM: budgets of keys", () => {
  const [after = ""] = blocksOf("LiteLLM: budgets of keys");
  const secrets = `
apiVersion: v1
kind: Secret
metadata: { name: openai-key }
stringData: { apiKey: key-of-the-provider }
---
apiVersion: v1
kind: Secret
metadata: { name: other, labels: { keys: litellm } }
stringData: { apiKey: sk-other }
`;
  const of = (tokens = 0, key = "sk-replace-it-by-32-random-bytes"): Request => ({
    headers: { authorization: `Bearer ${key}`, ...costing(tokens) },
  });
  const start = () => serve(after, { route: "chat", more: [secrets] });

  test("rpm_limit, with an error of the provider's form, and only for keys that are known", async () => {
    const { allowedOf, send, status } = await start();
    expect(await allowedOf(62, of())).toBe(60);
    const denied = await send(of());
    expect(await denied.json()).toMatchObject({ error: { code: "rate_limit_exceeded" } });
    expect(await status(of(0, "sk-other"))).toBe(200);
    expect(await status(of(0, "sk-unknown"))).toBe(401);
  });

  test("tpm_limit", async () => {
    const { gateway, status } = await start();
    expect(await status(of(100_000))).toBe(200);
    expect(await status(of())).toBe(429);
    gateway.clock.advance(60_000);
    expect(await status(of())).toBe(200);
  });

  test("max_parallel_requests", async () => {
    const { expectAtOnce } = await start();
    await expectAtOnce(10, of());
  });

  test("max_budget and budget_duration: money until the month ends, and a model without a price is denied", async () => {
    const { gateway, status } = await start();
    const from = Date.parse("2026-02-10T12:00:00Z");
    gateway.clock.stepWall(from - gateway.clock.nowMs());
    // 2 dollars for a million tokens.
    expect(await status(of(12_500_000))).toBe(200);
    gateway.clock.advance(60_000);
    expect(await status(of())).toBe(429);
    expect(await status(of(0, "sk-other"))).toBe(200);
    gateway.clock.advance(Date.parse("2026-03-01T00:00:00Z") - from - 60_001);
    expect(await status(of())).toBe(429);
    gateway.clock.advance(1);
    expect(await status(of())).toBe(200);
    expect(await status({ ...of(), body: { model: "gpt-5" } })).toBe(403);
  });
});
