/** Access to the admin server: by its owner over a Unix socket, and from elsewhere with the token. */
import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { proxyctl } from "../../../proxyctl/src/testing/run.ts";
import { sendToAdmin } from "../../support/admin-proxy.ts";
import { gatewayManifest } from "../../support/gateway.ts";
import { freePort } from "../../support/free-port.ts";
import { spawnProxy, startProxy } from "../../support/proxy-process.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "admin-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

const files = async () => ({ "gateway.yaml": gatewayManifest(await freePort()) });

function sendToSocket(
  socketPath: string,
  path: string,
  headers: Record<string, string> = {},
): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    httpRequest({ socketPath, path, headers: { host: "localhost", ...headers }, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .once("error", reject)
      .end();
  });
}

test("a Unix socket is accessible to its owner only, replaces one without a listener, and is removed with the proxy", async () => {
  const path = join(await newFolder(), "admin.sock");
  const first = await startProxy(await files(), ["--admin-address", `unix:${path}`, "--workers", "1"]);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(await sendToSocket(path, "/logging")).toBe(200);
  expect(await sendToSocket(path, "/logging", { host: "evil.example" })).toBe(403);
  expect((await proxyctl(["config", "all", "--address", `unix:${path}`])).stdout).toContain("default/web/http");

  const second = await spawnProxy(await files(), ["--admin-address", `unix:${path}`, "--workers", "1"]);
  expect(await second.exited).not.toBe(0);
  expect(second.stderr()).toMatch(/--admin-address: .*taken by another process/);
  expect(await sendToSocket(path, "/logging")).toBe(200);

  first.kill("SIGKILL");
  await first.exited;
  expect((await stat(path)).isSocket()).toBe(true);
  const third = await startProxy(await files(), ["--admin-address", `unix:${path}`, "--workers", "1"]);
  expect(await sendToSocket(path, "/logging")).toBe(200);
  third.kill("SIGTERM");
  expect(await third.exited).toBe(0);
  await expect(stat(path)).rejects.toThrow("ENOENT");
  const failed = await proxyctl(["config", "all", "--address", `unix:${path}`]);
  expect(failed.stderr).toContain(`connect to unix:${path}`);
});

test("a file that is no socket is not replaced", async () => {
  const path = join(await newFolder(), "precious");
  await writeFile(path, "data");
  const proxy = await spawnProxy(await files(), ["--admin-address", `unix:${path}`, "--workers", "1"]);
  expect(await proxy.exited).not.toBe(0);
  expect((await stat(path)).size).toBe(4);
});

test(":PORT is on loopback, and needs no token", async () => {
  const port = await freePort();
  const proxy = await startProxy(await files(), ["--admin-address", `:${port}`, "--workers", "1"]);
  const { text } = await sendToAdmin(`http://127.0.0.1:${port}/config_dump`);
  expect(JSON.parse(text)).toMatchObject({ config: { settings: { "admin-address": `127.0.0.1:${port}` } } });
  proxy.kill("SIGTERM");
});

test.each(["0.0.0.0", "[::]", "10.0.0.1", "some-name"])("%s:PORT requires a token", async (host) => {
  const proxy = await spawnProxy(await files(), ["--admin-address", `${host}:15000`]);
  expect(await proxy.exited).not.toBe(0);
  expect(proxy.stderr()).toMatch(/--admin-address: the address is not loopback, which requires --admin-token-file/);
});

test("with a token every request needs it, and the token can be replaced", async () => {
  const tokenFile = join(await newFolder(), "token");
  await writeFile(tokenFile, "first-token\n");
  const port = await freePort();
  const proxy = await startProxy(await files(), [
    ...["--admin-address", `0.0.0.0:${port}`, "--admin-token-file", tokenFile, "--workers", "1"],
  ]);
  const url = `http://127.0.0.1:${port}`;
  const send = async (authorization?: string, path = "/logging", method = "GET") =>
    (await sendToAdmin(url + path, { method, headers: authorization === undefined ? {} : { authorization } })).status;
  const basic = (token: string) => `Basic ${Buffer.from(`admin:${token}`).toString("base64")}`;

  const response = await sendToAdmin(`${url}/config_dump`);
  expect([response.status, response.headers["www-authenticate"]]).toEqual([401, expect.stringContaining("Bearer")]);
  for (const path of ["/", "/ui", "/ui/", "/limits", "/nowhere"]) expect(await send(undefined, path)).toBe(401);
  for (const wrong of ["Bearer", "Bearer x", "Bearer first-toke", "Bearer first-token2", "first-token", basic("x")]) {
    expect([wrong, await send(wrong)]).toEqual([wrong, 401]);
  }
  expect(await send("Bearer x", "/quitquitquit", "POST")).toBe(401);
  expect(await send("Bearer first-token")).toBe(200);
  expect(await send(basic("first-token"))).toBe(200);
  // A page of another site must not use the credentials that the browser stores.
  const headers = { authorization: basic("first-token"), "sec-fetch-site": "cross-site" };
  expect((await sendToAdmin(`${url}/logging`, { method: "POST", headers })).status).toBe(403);

  const address = ["--address", `127.0.0.1:${port}`];
  expect((await proxyctl(["config", "all", ...address])).stderr).toMatch(
    /a token is required[\s\S]*--admin-token-file/,
  );
  expect((await proxyctl(["config", "all", ...address, "--admin-token", "first-token"])).exitCode).toBe(0);
  expect((await proxyctl(["config", "all", ...address, "--admin-token-file", tokenFile])).exitCode).toBe(0);
  expect((await proxyctl(["config", "all", ...address, "--admin-token-file", "/nowhere"])).stderr).toContain(
    "/nowhere",
  );

  await writeFile(tokenFile, "second-token");
  expect([await send("Bearer first-token"), await send("Bearer second-token")]).toEqual([401, 200]);
  await rm(tokenFile);
  expect(await send("Bearer second-token")).toBe(503);
  expect(proxy.log.filter((line) => JSON.stringify(line).includes('-token"'))).toEqual([]);
});

test("a token that cannot be read prevents the start", async () => {
  const folder = await newFolder();
  const empty = join(folder, "empty");
  await writeFile(empty, "\n");
  for (const file of [empty, join(folder, "missing")]) {
    const proxy = await spawnProxy(await files(), ["--admin-token-file", file]);
    expect(await proxy.exited).not.toBe(0);
    expect(proxy.stderr()).toContain(file);
  }
});
