/** Backends that become unavailable under load. */
import { createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { freePort } from "../support/free-port.ts";
import { others, under } from "./support/fault.ts";
import { startBackendProcess } from "./support/servers.ts";
import { startWorld } from "./support/world.ts";

const noConnection = /^503 no connection to the backend/;
const wasReset = /^502 the backend reset the connection/;

test("backend killed for 3 s", async ({ task }) => {
  const backend = await startBackendProcess();
  const { port } = await startWorld({ backend: backend.port });
  const seen = await under({ port: () => port, inject: backend.kill, repair: backend.start });
  task.meta.figures = seen.figures();
  expect(others(seen.outcomes, "200", "200, body cut off", noConnection, wasReset, /^503 /)).toEqual([]);
  expect(task.meta.figures.recoveredMs).toBeLessThan(5_000);
});

test("backend paused for 3 s, request timeout 500 ms", async ({ task }) => {
  const backend = await startBackendProcess();
  const { port } = await startWorld({ backend: backend.port, rule: "timeouts: { request: 500ms }" });
  const seen = await under({ port: () => port, inject: backend.pause, repair: backend.resume });
  task.meta.figures = seen.figures();
  expect(others(seen.outcomes, "200", "200, body cut off", /^504 /, /^503 /)).toEqual([]);
  // Bounded by the rule's timeout, on any machine.
  expect(task.meta.figures.slowestMs).toBeLessThan(5_000);
  expect(task.meta.figures.recoveredMs).toBeLessThan(5_000);
});

test("backend that resets every connection in the middle of the body, for 3 s", async ({ task }) => {
  let isResetting = false;
  const whole = `HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n${"x".repeat(1_000)}`;
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", () => {
      if (!isResetting) socket.write(whole);
      else socket.write(whole.slice(0, 500), () => setTimeout(() => socket.resetAndDestroy(), 5));
    });
  });
  const backend = await freePort();
  await new Promise<void>((resolve) => server.listen(backend, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = await startWorld({ backend });
  const set = (value: boolean) => () => void (isResetting = value);
  const seen = await under({ port: () => port, inject: set(true), repair: set(false) });
  task.meta.figures = seen.figures();
  expect(others(seen.outcomes, "200", "200, body cut off", "ECONNRESET", wasReset, /^503 /)).toEqual([]);
  expect(task.meta.figures.recoveredMs).toBeLessThan(5_000);
});
