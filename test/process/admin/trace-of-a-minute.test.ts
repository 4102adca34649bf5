/** A trace of a stream that lasts a minute, to its last byte. In a file of its own: it waits beside the others. */
import { expect, test } from "vitest";
import { proxyctl } from "../../../proxyctl/src/testing/run.ts";
import { startAdminProxy } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";
import { messagesOf, openTrace } from "../../support/trace-stream.ts";

/** Two a second: who kept something of each would show it. */
const chunks = 122;
const chunkMs = 500;

test("follows a stream of a minute to its end, by the admin server and by proxyctl, and keeps nothing of its chunks", async () => {
  const backend = await startBackend((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    let sent = 0;
    const timer = setInterval(() => {
      response.write(`data: ${++sent}\n\n`);
      if (sent < chunks) return;
      clearInterval(timer);
      response.end();
    }, chunkMs);
  });
  const { proxy, url } = await startAdminProxy(backend.port);
  const trace = await openTrace(proxy.admin, `?expression=${encodeURIComponent('request.path == "/watched"')}`);
  const [body, events, command] = await Promise.all([
    fetch(`${url}/watched`).then((response) => response.text()),
    trace.ended,
    proxyctl(["trace", "--address", new URL(proxy.admin).host, "--port", new URL(url).port, "--", `${url}/asked`]),
  ]);

  expect(body.split("\n\n")).toHaveLength(chunks + 1);
  expect(events.map(({ message }) => message.type)).toEqual([
    "requestStarted",
    "routeSelection",
    "policySelection",
    "backendCallStart",
    "backendCallResult",
    "requestFinished",
  ]);
  const { length } = Buffer.from(body);
  expect(messagesOf(events, "requestFinished")).toMatchObject([{ status: 200, responseBytes: length }]);
  expect((events.at(-1)?.eventEnd ?? 0) / 1e6).toBeGreaterThan(60);
  // One a second, as long as nothing happens.
  expect(trace.keepAlives()).toBeGreaterThan(40);

  expect(command.exitCode).toBe(0);
  expect(command.stdout).toMatch(/^ *6\d{4}\.\d\dms +Finished +200, \d+ bytes$/m);
  expect(command.stdout).toContain(`answer: 200 OK, ${length} bytes`);
}, 150_000);
