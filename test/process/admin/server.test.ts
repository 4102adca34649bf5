/** Behaviour of every endpoint of the admin server: access, methods, parameters, and errors. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { adminErrorSchema } from "@gatewayproxy/admin-api/error";
import { endpointIndexSchema } from "@gatewayproxy/admin-api/endpoint-index";
import { renderMarkdownTable } from "@gatewayproxy/runtime/markdown-table";
import { withSection } from "@gatewayproxy/runtime/testing/doc-section";
import { expect, test, vi } from "vitest";
import { sendToAdmin, startAdminProxy } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";
import { rawHttp } from "../../support/raw-http.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

const start = async (args: readonly string[] = []) => startAdminProxy((await startBackend()).port, [], args);

const page = fileURLToPath(new URL("../../../docs/admin.md", import.meta.url));

test("the index lists every endpoint, as a page, as JSON and in docs/admin.md (`npx vitest -u` writes it)", async () => {
  const { proxy } = await start();
  const { endpoints } = endpointIndexSchema.parse(JSON.parse((await sendToAdmin(`${proxy.admin}/`)).text));
  expect(endpoints.map(({ path }) => path)).toContain("/config_dump");
  const shown = await sendToAdmin(`${proxy.admin}/`, { headers: { accept: "text/html" } });
  expect(shown.headers["content-type"]).toBe("text/html; charset=utf-8");
  for (const { path } of endpoints) expect(shown.text).toContain(path);

  const rows = endpoints.map(({ methods, path, query, summary }) => {
    return [methods.join(", "), `\`${path}\``, query === "" ? "" : `\`${query}\``, summary];
  });
  const table = renderMarkdownTable([["method", "path", "query", "what it does"], ...rows]);
  await expect(withSection(readFileSync(page, "utf8"), "endpoints", table)).toMatchFileSnapshot(page);
});

test("a wrong method, an unknown path, an unknown or repeated parameter get an error that says what is accepted", async () => {
  const { proxy } = await start();
  const { endpoints } = endpointIndexSchema.parse(JSON.parse((await sendToAdmin(`${proxy.admin}/`)).text));
  for (const { path, methods } of endpoints) {
    const wrong = await sendToAdmin(proxy.admin + path, { method: methods.includes("GET") ? "DELETE" : "GET" });
    const allowed = methods.flatMap((each) => (each === "GET" ? ["GET", "HEAD"] : [each])).join(", ");
    expect([path, wrong.status, wrong.headers["allow"]]).toEqual([path, 405, allowed]);
    expect(adminErrorSchema.parse(JSON.parse(wrong.text)).hint).toContain(allowed);
    const [method] = methods;
    const unknown = await sendToAdmin(`${proxy.admin}${path}?nonsense=1`, { method: method ?? "GET" });
    expect([path, unknown.status]).toEqual([path, 400]);
    expect(adminErrorSchema.parse(JSON.parse(unknown.text)).error).toContain("nonsense");
  }
  const missing = await sendToAdmin(`${proxy.admin}/nowhere`);
  expect(missing.status).toBe(404);
  const { hint } = adminErrorSchema.parse(JSON.parse(missing.text));
  for (const { path } of endpoints) expect(hint).toContain(path);
  expect((await sendToAdmin(`${proxy.admin}/logging?level=info&level=debug`, { method: "POST" })).status).toBe(400);
});

test("HEAD is served like GET, without a body and without effect", async () => {
  const { proxy } = await start();
  const { endpoints } = endpointIndexSchema.parse(JSON.parse((await sendToAdmin(`${proxy.admin}/`)).text));
  const readable = endpoints.filter(({ methods }) => methods.includes("GET")).map(({ path }) => path);
  for (const path of [...readable, "/ui"]) {
    const [get, head] = await Promise.all([
      /debug\/(trace|pprof)/.test(path) ? undefined : sendToAdmin(proxy.admin + path),
      sendToAdmin(proxy.admin + path, { method: "HEAD" }),
    ]);
    expect([path, head.status, head.text]).toEqual([path, get?.status ?? 200, ""]);
    if (get !== undefined) expect(head.headers["content-type"]).toBe(get.headers["content-type"]);
  }
  expect((await sendToAdmin(`${proxy.admin}/limits?max=none`, { method: "HEAD" })).status).toBe(400);
  const post = await sendToAdmin(`${proxy.admin}/ui`, { method: "POST" });
  expect([post.status, post.headers["allow"]]).toEqual([405, "GET, HEAD"]);
});

test("an unreadable request gets a JSON error too, and an error repeats the beginning of the query", async () => {
  const { proxy } = await start();
  const requests = [
    ["FOO / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400],
    ["hello\r\n\r\n", 400],
    [`GET /?${"q".repeat(30_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`, 431],
  ] as const;
  for (const [request, status] of requests) {
    const response = await rawHttp(proxy.admin, request);
    expect(response.status).toBe(status);
    expect(adminErrorSchema.parse(JSON.parse(response.body)).error).toContain("the request ");
  }
  const { status, text } = await sendToAdmin(`${proxy.admin}/logging?level=${"x".repeat(9_000)}`, { method: "POST" });
  expect(status).toBe(400);
  expect(text.length).toBeLessThan(1_000);
});

test("requests of other sites and to other host names are rejected; --admin-host allows names", async () => {
  const { proxy } = await start(["--admin-host", "admin.example.com"]);
  const send = async (headers: Record<string, string>, method = "GET") =>
    (await sendToAdmin(`${proxy.admin}/logging${method === "POST" ? "?reset" : ""}`, { headers, method })).status;
  const { host } = new URL(proxy.admin);
  expect(await send({ host: "evil.example.com" })).toBe(403);
  expect(await send({ host: "127.0.0.1.evil.example.com" })).toBe(403);
  expect(await send({ host: "admin.example.com:15000" })).toBe(200);
  expect(await send({ host: "localhost:9" })).toBe(200);
  expect(await send({ host: "[::1]:9" })).toBe(200);
  expect(await send({ "sec-fetch-site": "cross-site" })).toBe(403);
  expect(await send({ "sec-fetch-site": "same-site" })).toBe(403);
  expect(await send({ "sec-fetch-site": "same-origin" })).toBe(200);
  expect(await send({ "sec-fetch-site": "none" })).toBe(200);
  expect(await send({ origin: "http://evil.example.com" }, "POST")).toBe(403);
  expect(await send({ origin: "null" }, "POST")).toBe(403);
  expect(await send({ origin: `http://${host}` }, "POST")).toBe(200);
});

test("--admin-address off opens no admin server", async () => {
  const { proxy } = await start(["--admin-address", "off"]);
  await expect(sendToAdmin(proxy.admin)).rejects.toThrow("ECONNREFUSED");
});
