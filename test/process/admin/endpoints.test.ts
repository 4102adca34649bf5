/** Logging, memory, profiles and the way down, over all threads of a proxy process. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { adminErrorSchema } from "@gatewayproxy/admin-api/error";
import { memorySchema } from "@gatewayproxy/admin-api/memory";
import { taskTreeSchema } from "@gatewayproxy/admin-api/tasks";
import { expect, test, vi } from "vitest";
import { askAdmin, startAdminProxy } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";
import { pprofTop } from "../../support/pprof.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

const start = async () => startAdminProxy((await startBackend()).port);

test("/logging tells the filter in effect and changes it in every thread at once", async () => {
  const { proxy, url } = await start();
  const logging = async (query: string, method = "POST") => askAdmin(`${proxy.admin}/logging${query}`, { method });
  expect((await logging("", "GET")).text).toBe("current log level is info\n");

  expect((await logging("?level=proxy::access=off")).text).toBe("current log level is info,proxy::access=off\n");
  for (let sent = 0; sent < 8; sent++) await fetch(url, { headers: { "x-request-id": "silent" } });
  expect((await logging("?level=debug,proxy::config=warn")).text).toBe(
    "current log level is debug,proxy::config=warn\n",
  );
  await fetch(url, { headers: { "x-request-id": "loud" } });
  await proxy.logged((line) => line["requestId"] === "loud");
  expect(proxy.log.some((line) => line["requestId"] === "silent")).toBe(false);

  expect((await logging("?reset")).text).toBe("current log level is info\n");
  expect((await logging("?reset&level=proxy::config=trace")).text).toBe(
    "current log level is info,proxy::config=trace\n",
  );

  for (const query of ["?level=verbose", "?level=info,proxy=loud", "?level==,"]) {
    const answer = await logging(query);
    const { error, hint } = adminErrorSchema.parse(JSON.parse(answer.text));
    expect([query, answer.status]).toEqual([query, 400]);
    expect(error).toContain("accepted are a level (off, error, warn, info, debug, trace)");
    expect(hint).toContain("POST /logging?level=");
  }
  expect((await logging("", "GET")).text).toBe("current log level is info,proxy::config=trace\n");
});

test("/memory tells the process, every thread's heap, and the counters", async () => {
  const { proxy } = await start();
  const memory = memorySchema.parse(JSON.parse((await askAdmin(`${proxy.admin}/memory`)).text));
  expect(memory.threads.map(({ thread }) => thread)).toEqual(["main", "worker 1", "worker 2"]);
  expect(memory.process.rss).toBeGreaterThan(10_000_000);
  for (const thread of memory.threads) expect(thread.heapUsed).toBeGreaterThan(1_000_000);
  expect(memory.counters).toMatchObject({ capacity: 131_072, open: 0, evictions: 0 });
});

test("profiles name the functions of the sources and open in go tool pprof", async () => {
  const { proxy, url } = await start();
  const taken = fetch(`${proxy.admin}/debug/pprof/profile?seconds=1`);
  let isDone = false;
  const load = async (): Promise<void> => {
    while (!isDone) await (await fetch(url)).text();
  };
  const loads = [load(), load()];
  const answer = await taken;
  isDone = true;
  await Promise.all(loads);
  expect(answer.status).toBe(200);
  const report = reportOf(Buffer.from(await answer.arrayBuffer()));
  expect(report).toContain("Type: cpu");
  expect(report).toMatch(/\.ts/);
});

test("a heap profile of an idle proxy names what is alive; /debug/tasks shows a CPU profile while it is taken", async () => {
  const { proxy } = await start();
  for (let taken = 0; taken < 2; taken++) {
    const heap = await fetch(`${proxy.admin}/debug/pprof/heap`);
    expect(heap.status).toBe(200);
    const report = reportOf(Buffer.from(await heap.arrayBuffer()));
    expect(report).toContain("Type: inuse_space");
    expect(report).toMatch(/proxy\/src\/\S+\.ts/);
  }
  const left = new AbortController();
  const profile = fetch(`${proxy.admin}/debug/pprof/profile?seconds=300`, { signal: left.signal });
  const profiles = async (): Promise<unknown[]> =>
    taskTreeSchema
      .parse(JSON.parse((await askAdmin(`${proxy.admin}/debug/tasks`)).text))
      .threads.flatMap(({ tasks }) => tasks.filter(({ kind }) => kind === "profile").map(({ name }) => name));
  await expect.poll(profiles, { timeout: 15_000 }).toEqual(["cpu"]);
  left.abort();
  await expect(profile).rejects.toThrow("aborted");
  await expect.poll(profiles, { timeout: 15_000 }).toEqual([]);
});

test("of ten profiles asked for at once one is taken and nine are told to come back; none takes seconds out of range", async () => {
  const { proxy } = await start();
  for (const seconds of ["0", "301", "1.5", "-1", "ten", ""]) {
    const answer = await askAdmin(`${proxy.admin}/debug/pprof/profile?seconds=${seconds}`);
    expect([seconds, answer.status]).toEqual([seconds, 400]);
    expect(adminErrorSchema.parse(JSON.parse(answer.text)).hint).toContain("from 1 to 300");
  }
  const asked = Array.from({ length: 10 }, () => askAdmin(`${proxy.admin}/debug/pprof/profile?seconds=1`));
  const statuses = (await Promise.all(asked)).map(({ status }) => status);
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
