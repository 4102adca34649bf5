import { Logs } from "@gatewayproxy/runtime/log";
import { type LogLevel } from "@gatewayproxy/runtime/log-filter";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import { RequestLog } from "../request-log.ts";
import { Tracer } from "./tracer.ts";

function tracing(level: LogLevel) {
  const clock = new FakeClock();
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const filterOf = (to: LogLevel) => ({ level: to, modules: new Map() });
  const logs = new Logs({ filter: filterOf(level), clock, destination });
  const [access, routing] = [logs.logger("proxy::access"), logs.logger("proxy::routing")];
  const [ratelimit, upstream, server] = ["ratelimit", "upstream", "server"].map((name) =>
    logs.logger(`proxy::${name}`),
  );
  if (ratelimit === undefined || upstream === undefined || server === undefined) throw new Error("no loggers");
  const tracer = new Tracer(clock, 1, new RequestLog({ access, routing, ratelimit, upstream, server }));
  const setLevel = (to: LogLevel): void => {
    logs.setFilter(filterOf(to));
    tracer.logFilterChanged();
  };
  return { tracer, setLevel, lines };
}

const record = { requestId: "r1", route: "default/chat" };

test("logs no request above debug, and each from debug on", () => {
  const { tracer, setLevel, lines } = tracing("info");
  expect(tracer.isWatching).toBe(false);
  setLevel("debug");
  expect(tracer.isWatching).toBe(true);
  const trace = tracer.claim(record, () => expect.fail("no subscription has a condition"), 0);
  trace?.log?.routing.trace({}, "not logged at debug");
  trace?.emit({ type: "requestFinished", status: 200, calls: 1, requestBytes: 0, responseBytes: 2 });
  trace?.end();
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    expect.objectContaining({ module: "proxy::server", ...record, status: 200, msg: "request ended" }),
  ]);
  expect(tracer.isWatching).toBe(true);
  setLevel("info");
  expect(tracer.isWatching).toBe(false);
});

test("assigns a request to a subscription and to the log, and without a subscription to the log only", () => {
  const { tracer, lines } = tracing("debug");
  const events: unknown[] = [];
  const claim = new Int32Array(new SharedArrayBuffer(4));
  tracer.add({ id: 1, claim, matches: undefined, sink: (event) => void events.push(event?.message.type) });
  for (let request = 0; request < 2; request++) {
    const trace = tracer.claim(record, () => undefined, 0);
    trace?.emit({ type: "policySelection", policies: [] });
    trace?.end();
  }
  expect(events).toEqual(["policySelection", undefined]);
  expect(lines).toHaveLength(2);
});
