/** `/debug/trace`: one request from its head to its last byte, whichever worker serves it. */
import { adminErrorSchema } from "@gatewayproxy/admin-api/error";
import { expect, test, vi } from "vitest";
import { sendToAdmin, startAdminProxy } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";
import { backendRef, policyManifest, routeManifest } from "../../support/gateway.ts";
import { rawHttp } from "../../support/raw-http.ts";
import { messagesOf, openTrace } from "../../support/trace-stream.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

const limit = policyManifest("p", "kind: HTTPRoute, name: r", [
  "{ requests: 2, unit: Hours, key: 'request.headers[\"x-api-key\"]' }",
]);

test("reports the events of the next request only, without its secrets", async () => {
  const backend = await startBackend();
  const posts = `{ matches: [{ path: { type: PathPrefix, value: /v1 }, method: POST }], backendRefs: [${backendRef("b")}] }`;
  const { proxy, url } = await startAdminProxy(backend.port, [limit, routeManifest("posts", [posts])]);
  const send = async (headers: Record<string, string> = {}) =>
    (await fetch(`${url}/v1?token=canary-query&n=1`, { headers })).status;
  const headers = {
    authorization: "Bearer canary-header",
    cookie: "a=canary-cookie",
    "x-api-key": "canary-api-key-0001",
  };

  const allowed = await openTrace(proxy.admin);
  expect(await send(headers)).toBe(200);
  const events = await allowed.ended;
  expect(events.map(({ message }) => message.type)).toEqual([
    "requestStarted",
    "routeSelection",
    "policySelection",
    "policy",
    "backendCallStart",
    "backendCallResult",
    "requestFinished",
  ]);
  expect(JSON.stringify(events)).not.toContain("canary");
  expect(messagesOf(events, "requestStarted")[0]).toMatchObject({ method: "GET", path: "/v1?token=<redacted>&n=1" });
  expect(messagesOf(events, "routeSelection")[0]).toMatchObject({
    listener: "default/web/http",
    route: "default/r",
    rule: "default/r/0",
    match: "path prefix /",
    evaluatedRoutes: ["default/posts", "default/r"],
    passedOver: ["default/posts/0: method is not POST"],
  });
  expect(messagesOf(events, "policy")[0]).toMatchObject({
    policy: "default/p",
    entry: 0,
    limit: 2,
    before: 0,
    cost: 1,
    after: 1,
    decision: "allowed",
  });
  expect(messagesOf(events, "backendCallStart")[0]).toMatchObject({
    backend: "Backend/default/b",
    target: `127.0.0.1:${backend.port}`,
    call: 1,
  });
  expect(messagesOf(events, "backendCallResult")[0]).toMatchObject({ status: 200 });
  expect(messagesOf(events, "requestFinished")[0]).toMatchObject({ status: 200, calls: 1 });
  for (const { eventStart, eventEnd } of events) expect(eventStart).toBeLessThanOrEqual(eventEnd);

  await send(headers);
  const denied = await openTrace(proxy.admin);
  expect(await send(headers)).toBe(429);
  const denial = await denied.ended;
  expect(messagesOf(denial, "policy")[0]).toMatchObject({ before: 2, cost: 0, after: 2, decision: "denied" });
  expect(messagesOf(denial, "requestFinished")[0]).toMatchObject({ status: 429, reason: "RateLimited", calls: 0 });
});

test("an expression selects the request; every watch gets the next matching one, and only one", async () => {
  const { proxy, url } = await startAdminProxy((await startBackend()).port);
  const send = async (path: string): Promise<string> => (await fetch(url + path)).text();
  const condition = encodeURIComponent('request.path == "/chosen"');
  const chosen = await openTrace(proxy.admin, `?expression=${condition}`);
  for (let sent = 0; sent < 6; sent++) await send("/other");
  expect(chosen.events).toEqual([]);
  await send("/chosen");
  await send("/chosen");
  expect(messagesOf(await chosen.ended, "requestStarted").map(({ path }) => path)).toEqual(["/chosen"]);

  const watchers = await Promise.all([openTrace(proxy.admin), openTrace(proxy.admin), openTrace(proxy.admin)]);
  for (const path of ["/next", "/after", "/after", "/after"]) await send(path);
  const seen = (await Promise.all(watchers.map(({ ended }) => ended))).map((events) =>
    messagesOf(events, "requestStarted").map(({ path }) => path),
  );
  expect(seen).toEqual([["/next"], ["/next"], ["/next"]]);

  const wrong = await sendToAdmin(`${proxy.admin}/debug/trace?expression=${encodeURIComponent("request.path ==")}`);
  expect(wrong.status).toBe(400);
  expect(adminErrorSchema.parse(JSON.parse(wrong.text)).error).toMatch(/column \d+/);
  const text = await sendToAdmin(`${proxy.admin}/debug/trace?expression=${encodeURIComponent("request.path")}`);
  expect(adminErrorSchema.parse(JSON.parse(text.text)).error).toBe("expression has the type string, accepted is bool");
});

test("follows a stream to its end; a watch that ends has no effect on others", async () => {
  const backend = await startBackend((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    let sent = 0;
    const timer = setInterval(() => {
      response.write(`data: ${++sent}\n\n`);
      if (sent < 10) return;
      clearInterval(timer);
      response.end();
    }, 250);
  });
  const { proxy, url } = await startAdminProxy(backend.port);
  const left = await openTrace(proxy.admin);
  left.close();
  await left.ended;

  const stream = await openTrace(proxy.admin);
  const body = (await fetch(url)).text();
  expect((await body).split("\n\n")).toHaveLength(11);
  const events = await stream.ended;
  expect(stream.keepAlives()).toBeGreaterThanOrEqual(2);
  const [started, finished] = [events.find(({ message }) => message.type === "backendCallResult"), events.at(-1)];
  expect(finished?.message).toMatchObject({ type: "requestFinished", status: 200 });
  expect((finished?.eventEnd ?? 0) - (started?.eventEnd ?? 0)).toBeGreaterThan(2_000_000);
});

test("a request with an invalid head is reported to watches without an expression only", async () => {
  const { proxy, url } = await startAdminProxy((await startBackend()).port);
  const certain = await openTrace(proxy.admin, `?expression=${encodeURIComponent('request.method == "GET"')}`);
  const any = await openTrace(proxy.admin);
  expect((await rawHttp(url, "GET /a#b HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\r\n")).status).toBe(400);
  const events = await any.ended;
  expect(events.map(({ message }) => message)).toMatchObject([
    { type: "requestStarted", method: "GET", path: "/a#b" },
    { type: "requestFinished", status: 400, reason: "BadRequest", calls: 0 },
  ]);

  const unread = await openTrace(proxy.admin);
  expect((await rawHttp(url, "no request\r\n\r\n")).status).toBe(400);
  expect(messagesOf(await unread.ended, "requestFinished")).toMatchObject([{ status: 400, reason: "BadRequest" }]);
  expect(certain.events).toEqual([]);
  certain.close();
});

test("a trace id selects the request, and finds the denials of its trace", async () => {
  const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
  const { proxy, url } = await startAdminProxy((await startBackend()).port, [
    policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 3, unit: Hours }"]),
  ]);
  const send = async (id: string): Promise<number> =>
    (await fetch(url, { headers: { traceparent: `00-${id}-00f067aa0ba902b7-01` } })).status;
  const traceparent = `00-${traceId}-00f067aa0ba902b7-01`;
  const watches = await Promise.all([traceId, traceparent].map((id) => openTrace(proxy.admin, `?trace_id=${id}`)));
  expect(await send("a".repeat(32))).toBe(200);
  expect((await fetch(url)).status).toBe(200);
  expect(await send(traceId)).toBe(200);
  for (const { ended } of watches) {
    expect(messagesOf(await ended, "requestStarted")).toMatchObject([{ traceId, spanId: "00f067aa0ba902b7" }]);
  }
  expect(await send(traceId)).toBe(429);
  const denials = async (id: string): Promise<unknown> =>
    JSON.parse((await sendToAdmin(`${proxy.admin}/limits/decisions?trace_id=${id}`)).text);
  expect(await denials(traceId)).toMatchObject({ decisions: [{ traceId, policy: "default/p" }] });
  expect(await denials("a".repeat(32))).toMatchObject({ decisions: [] });
});

test.each(["/debug/trace", "/limits/decisions"])(
  "%s rejects what is no trace id, with what is accepted",
  async (path) => {
    const { proxy } = await startAdminProxy((await startBackend()).port);
    for (const id of ["abc", "0".repeat(32)]) {
      const { status, text } = await sendToAdmin(`${proxy.admin}${path}?trace_id=${id}`);
      expect(status).toBe(400);
      expect(adminErrorSchema.parse(JSON.parse(text))).toEqual({
        error: `trace_id=${id} is neither the id of a trace nor a traceparent`,
        hint: "trace_id is a trace id of 32 hexadecimal digits that are not all zeros, or a traceparent",
      });
    }
  },
);
