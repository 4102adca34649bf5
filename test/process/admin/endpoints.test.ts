/** Logging, memory and profiles, over all threads of a proxy process. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { adminErrorSchema } from "@gatewayproxy/admin-api/error";
import { memorySchema } from "@gatewayproxy/admin-api/memory";
import { taskTreeSchema } from "@gatewayproxy/admin-api/tasks";
import { expect, test, vi } from "vitest";
import { sendToAdmin, startAdminProxy } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";
import { pprofTop } from "../../support/pprof.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

const start = async () => startAdminProxy((await startBackend()).port);

test("/logging shows the filter and the modules, and a POST replaces the filter in every thread at once", async () => {
  const { proxy, url } = await start();
  const send = async (query: string, method = "POST") => sendToAdmin(`${proxy.admin}/logging${query}`, { method });
  const filterOf = ({ text }: { text: string }) => /^current log level is (.*)\n\n/.exec(text)?.[1];
  expect(filterOf(await send("", "GET"))).toBe("info");

  expect(filterOf(await send("?level=info,proxy::access=off"))).toBe("info,proxy::access=off");
  expect((await send("", "GET")).text).toMatch(/^proxy::access +off +requests: one line for each/m);
  for (let sent = 0; sent < 8; sent++) await fetch(url, { headers: { "x-request-id": "silent" } });
  expect(filterOf(await send("?level=debug,proxy::config=warn"))).toBe("debug,proxy::config=warn");
  await fetch(url, { headers: { "x-request-id": "loud" } });
  await proxy.logged((line) => line["requestId"] === "loud");
  expect(proxy.log.some((line) => line["requestId"] === "silent")).toBe(false);

  expect(filterOf(await send("?reset"))).toBe("info");
  expect(filterOf(await send("?level=proxy::config=trace"))).toBe("error,proxy::config=trace");

  for (const [query, reason] of [
    ["?level=verbose", '"verbose" is neither a level nor a module'],
    ["?level=info,proxy=loud", '"proxy=loud" is not a log directive'],
    ["?level=info,proxy::ratelimitt=debug", "did you mean proxy::ratelimit?"],
    ["?level==,", '"=" is not a log directive'],
    ["?level=", "nothing is set"],
    ["", "neither level nor reset"],
    ["?reset&level=info", "level and reset"],
    ["?lvl=info", 'parameter "lvl" is not known'],
  ] as const) {
    const response = await send(query);
    const { error } = adminErrorSchema.parse(JSON.parse(response.text));
    expect([query, response.status, error]).toEqual([query, 400, expect.stringContaining(reason)]);
  }
  const body = await fetch(`${proxy.admin}/logging`, { method: "POST", body: "level=debug" });
  expect([body.status, await body.json()]).toEqual([
    400,
    { error: "/logging does not accept a body", hint: "use query parameters: ?level=FILTER or ?reset" },
  ]);
  expect(filterOf(await send("", "GET"))).toBe("error,proxy::config=trace");
});

test("/memory shows the process, every thread's heap, and the counters", async () => {
  const { proxy } = await start();
  const memory = memorySchema.parse(JSON.parse((await sendToAdmin(`${proxy.admin}/memory`)).text));
  expect(memory.threads.map(({ thread }) => thread)).toEqual(["main", "worker 1", "worker 2"]);
  expect(memory.process.rss).toBeGreaterThan(10_000_000);
  for (const thread of memory.threads) expect(thread.heapUsed).toBeGreaterThan(1_000_000);
  expect(memory.counters).toMatchObject({ capacity: 131_072, open: 0, evictions: 0 });
});

test("profiles name functions and files, and open in go tool pprof", async () => {
  const { proxy, url } = await start();
  const taken = fetch(`${proxy.admin}/debug/pprof/profile?seconds=1`);
  let isDone = false;
  const load = async (): Promise<void> => {
    while (!isDone) await (await fetch(url)).text();
  };
  const loads = [load(), load()];
  const response = await taken;
  isDone = true;
  await Promise.all(loads);
  expect(response.status).toBe(200);
  const report = reportOf(Buffer.from(await response.arrayBuffer()));
  expect(report).toContain("Type: cpu");
  expect(report).toMatch(/proxy\/\S+\.[jt]s/);
});

test("a heap profile of an idle proxy names its live objects; /debug/tasks shows a CPU profile in progress", async () => {
  const { proxy } = await start();
  for (let taken = 0; taken < 2; taken++) {
    const heap = await fetch(`${proxy.admin}/debug/pprof/heap`);
    expect(heap.status).toBe(200);
    const report = reportOf(Buffer.from(await heap.arrayBuffer()));
    expect(report).toContain("Type: inuse_space");
    expect(report).toMatch(/proxy\/\S+\.[jt]s/);
  }
  const left = new AbortController();
  const profile = fetch(`${proxy.admin}/debug/pprof/profile?seconds=300`, { signal: left.signal });
  const profiles = async (): Promise<unknown[]> =>
    taskTreeSchema
      .parse(JSON.parse((await sendToAdmin(`${proxy.admin}/debug/tasks`)).text))
      .threads.flatMap(({ tasks }) => tasks.filter(({ kind }) => kind === "profile").map(({ name }) => name));
  await expect.poll(profiles, { timeout: 15_000 }).toEqual(["cpu"]);
  left.abort();
  await expect(profile).rejects.toThrow("aborted");
  await expect.poll(profiles, { timeout: 15_000 }).toEqual([]);
});

test("of ten concurrent profiles one is taken and nine get 429; a duration out of range is rejected", async () => {
  const { proxy } = await start();
  for (const seconds of ["0", "301", "1.5", "-1", "ten", ""]) {
    const response = await sendToAdmin(`${proxy.admin}/debug/pprof/profile?seconds=${seconds}`);
    expect([seconds, response.status]).toEqual([seconds, 400]);
    expect(adminErrorSchema.parse(JSON.parse(response.text)).hint).toContain("from 1 to 300");
  }
  const responses = Array.from({ length: 10 }, () => sendToAdmin(`${proxy.admin}/debug/pprof/profile?seconds=1`));
  const statuses = (await Promise.all(responses)).map(({ status }) => status);
  expect(statuses.toSorted()).toEqual([200, ...Array.from({ length: 9 }, () => 429)]);
});

function reportOf(profile: Buffer): string {
  const folder = mkdtempSync(join(tmpdir(), "pprof-"));
  try {
    const file = join(folder, "profile.pb.gz");
    writeFileSync(file, profile);
    return pprofTop(file);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
