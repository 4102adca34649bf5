/**
 * The pages of docs/limits: the first block of each is served in front of the mock LLM, and does what the page says.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startMockLlm } from "../../examples/mock-llm/src/mock-llm.ts";
import { ConfigSet } from "../../ratelimit-service/src/config/config-set.ts";
import { gatewayManifest, manifests, routeManifest, startGateway } from "../support/gateway.ts";
import { repository } from "./markdown.ts";

const backend = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: 8089 } }
`;
const route = routeManifest("chat", ["backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]"]);

/** Returns the blocks of a page that are YAML. */
function blocksOf(page: string): readonly string[] {
  const text = readFileSync(join(repository, "docs/limits", page), "utf8");
  return [...text.matchAll(/^```yaml\n([^]*?)^```/gm)].flatMap(([, block]) => block ?? []);
}

/** Serves the manifests of a page, with a Backend unless the page has one. */
async function serve(page: string) {
  const mock = await startMockLlm({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => mock.close());
  const [block = ""] = blocksOf(page);
  const parts = [gatewayManifest(), route, ...(block.includes("kind: Backend") ? [] : [backend]), block];
  const gateway = await startGateway(manifests(...parts.map((part) => part.replace("8089", String(mock.port)))));
  const send = (user: string, headers: Readonly<Record<string, string>> = {}, body: object = {}) =>
    fetch(`${gateway.url()}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-user": user, ...headers },
      body: JSON.stringify({ model: "mock", messages: [], ...body }),
    });
  /** Resolves with the status when the response is complete. */
  const status = async (...args: Parameters<typeof send>): Promise<number> => {
    const response = await send(...args);
    await response.arrayBuffer();
    return response.status;
  };
  /** Sends requests one after the other, and counts those that were allowed. */
  const allowedOf = async (count: number, user: string): Promise<number> => {
    let allowed = 0;
    for (let sent = 0; sent < count; sent++) if ((await status(user)) === 200) allowed++;
    return allowed;
  };
  return { gateway, send, status, allowedOf };
}

/** Disconnects while a response is received. */
const cancel = async (response: Response): Promise<void> => await response.body?.cancel();

const costing = (tokens: number) => ({ "x-mock-prompt-tokens": "0", "x-mock-completion-tokens": String(tokens) });

test("monthly budgets: tokens or money, whichever ends first, until the month ends", async () => {
  const { gateway, status } = await serve("monthly-budgets.md");
  gateway.clock.stepWall(Date.parse("2026-02-10T12:00:00Z") - gateway.clock.nowMs());
  expect(await status("ada", costing(2_000_000))).toBe(200);
  expect(await status("ada")).toBe(429);
  expect(await status("grace")).toBe(200);
  expect(await status("grace", {}, { model: "other" })).toBe(403);
  gateway.clock.advance(Date.parse("2026-03-01T00:00:00Z") - Date.parse("2026-02-10T12:00:00Z") - 1);
  expect(await status("ada")).toBe(429);
  gateway.clock.advance(1);
  expect(await status("ada")).toBe(200);
});

test("reservations: concurrent requests hold what they may use, and release the rest", async () => {
  const { status } = await serve("reservations.md");
  const request = () => status("ada", { ...costing(100), "x-mock-first-byte-ms": "300" }, { max_tokens: 2_400 });
  const statuses = await Promise.all(Array.from({ length: 6 }, request));
  expect(statuses.filter((each) => each === 200)).toHaveLength(4);
  expect(statuses.filter((each) => each === 429)).toHaveLength(2);
  // 400 of 10,000 are used.
  expect(await status("ada", costing(100), { max_tokens: 9_000 })).toBe(200);
});

test("concurrent requests: a third one is denied, and the end of one makes room", async () => {
  const { send, status } = await serve("concurrent-requests.md");
  // The head of a stream arrives long before its end.
  const slow = { "x-mock-delay-ms": "60000" };
  const streams = await Promise.all([
    send("ada", slow, { stream: true }),
    send("ada", slow, { stream: true }),
    send("grace", slow, { stream: true }),
  ]);
  expect(streams.map((each) => each.status)).toEqual([200, 200, 200]);
  const third = await send("ada");
  expect([third.status, third.headers.get("retry-after")]).toEqual([429, "1"]);
  await third.arrayBuffer();
  await cancel(streams[0]);
  await expect.poll(() => status("ada")).toBe(200);
  await Promise.all(streams.slice(1).map(cancel));
});

test("several windows: a request passes all of them, and a denied one counts in none", async () => {
  const { gateway, allowedOf } = await serve("several-windows.md");
  expect(await allowedOf(7, "ada")).toBe(5);
  gateway.clock.advance(30_000);
  expect(await allowedOf(7, "ada")).toBe(3);
  gateway.clock.advance(30_000);
  expect(await allowedOf(1, "ada")).toBe(0);
  expect(await allowedOf(6, "grace")).toBe(5);
  gateway.clock.advance(540_000);
  expect(await allowedOf(6, "ada")).toBe(5);
});

test("sliding windows: no 60 seconds have more than the limit", async () => {
  const { gateway, allowedOf } = await serve("sliding-windows.md");
  expect(await allowedOf(1, "ada")).toBe(1);
  gateway.clock.advance(59_000);
  expect(await allowedOf(6, "ada")).toBe(5);
  // A fixed window would begin here, with six more.
  gateway.clock.advance(2_000);
  expect(await allowedOf(6, "ada")).toBe(1);
});

test.each(["several-windows.md", "sliding-windows.md"])("%s: the service accepts its limits", (page) => {
  const [, text = ""] = blocksOf(page);
  const { problems, warnings } = new ConfigSet(false).update([{ key: page, file: page, text }]);
  expect([...problems, ...warnings]).toEqual([]);
});
