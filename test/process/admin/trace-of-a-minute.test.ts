/** A trace of a stream that lasts a minute by the clock of the proxy, to its last byte. */
import { expect, test } from "vitest";
import { proxyctl } from "../../../proxyctl/src/testing/run.ts";
import { startAdminProxy } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";
import { describeWith } from "../../support/describe-with.ts";
import { fastClock } from "../../support/fast-clock.ts";
import { messagesOf, openTrace } from "../../support/trace-stream.ts";

/** How much faster the clock of the proxy runs. */
const speed = 20;
/** Two a second by that clock: memory that is kept for each would show. */
const chunks = 122;
const chunkMs = 500 / speed;

describeWith(["faketime"], "a trace", () => {
  test("follows a stream of a minute to its end, by the admin server and by proxyctl, and stores none of its chunks", async () => {
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
    const { proxy, url } = await startAdminProxy(backend.port, [], [], fastClock(speed));
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
    // One a second while no event occurs.
    expect(trace.keepAlives()).toBeGreaterThan(40);

    expect(command.exitCode).toBe(0);
    const [, finishedMs] = /^ *(\d+\.\d\d)ms +Finished +200, \d+ bytes$/m.exec(command.stdout) ?? [];
    expect(Number(finishedMs)).toBeGreaterThan(60_000);
    expect(command.stdout).toContain(`response: 200 OK, ${length} bytes`);
  });
});
