/** `/debug/tasks`: the tasks in progress in every thread, and none once they have ended. */
import type { ServerResponse } from "node:http";
import { type Task, type TaskTree, taskTreeSchema } from "@gatewayproxy/admin-api/tasks";
import { expect, test, vi } from "vitest";
import { sendToAdmin, startAdminProxy } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";
import { openTrace } from "../../support/trace-stream.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

test("shows listeners, connections, requests and their attempts with ages, and the watches of the main thread", async () => {
  const waiting: ServerResponse[] = [];
  const backend = await startBackend((_request, response) => void waiting.push(response));
  const { proxy, url } = await startAdminProxy(backend.port);
  const tree = async (): Promise<TaskTree> =>
    taskTreeSchema.parse(JSON.parse((await sendToAdmin(`${proxy.admin}/debug/tasks`)).text));
  const trace = await openTrace(proxy.admin, `?expression=${encodeURIComponent('request.path == "/never"')}`);
  const fetched = ["/slow?token=secret", "/slow", "/slow"].map(async (path) => (await fetch(url + path)).text());
  await expect.poll(() => waiting.length, { timeout: 20_000 }).toBe(3);

  const { threads } = await tree();
  expect(threads.map(({ thread }) => thread)).toEqual(["main", "worker 1", "worker 2"]);
  expect(threads[0]?.tasks.map(({ kind }) => kind)).toEqual(["timer", "watch", "trace"]);
  for (const { tasks } of threads.slice(1)) expect(tasks.map(({ kind }) => kind)).toEqual(["timer", "listener"]);
  const requests = threads.flatMap(({ tasks }) => tasks.flatMap((task) => below(task, "request")));
  expect(requests.map(({ name }) => name)).toEqual(["GET /slow", "GET /slow", "GET /slow"]);
  for (const request of requests) {
    expect(request.ageMs).toBeGreaterThanOrEqual(0);
    expect(request.children).toMatchObject([
      { kind: "upstreamCall", name: `127.0.0.1:${backend.port}`, detail: { backend: "Backend/default/b", call: 1 } },
    ]);
  }

  for (const response of waiting) response.end("ok");
  await Promise.all(fetched);
  trace.close();
  await expect
    .poll(async () => (await tree()).threads.flatMap(({ tasks }) => tasks.flatMap((task) => below(task, "request"))))
    .toEqual([]);
});

function below(task: Task, kind: Task["kind"]): readonly Task[] {
  return [...(task.kind === kind ? [task] : []), ...task.children.flatMap((child) => below(child, kind))];
}
