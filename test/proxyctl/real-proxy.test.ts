/** Every command against the admin server of a real proxy in file mode. */
import { describe, expect, test, vi } from "vitest";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { proxyctl } from "../../proxyctl/src/testing/run.ts";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
} from "../support/gateway.ts";
import { pprofTop } from "../support/pprof.ts";
import { freePort } from "../support/free-port.ts";
import { startProxy } from "../support/proxy-process.ts";

/** A proxy that allows three requests a minute to its only route, and forwards them to a real server. */
async function startLimitedProxy() {
  const backend = await startBackend();
  const [port, adminPort] = [await freePort(), await freePort()];
  const admin = `127.0.0.1:${adminPort}`;
  const all = manifests(
    gatewayManifest(port),
    backendManifest("app", backend.port),
    routeManifest("app", [`{ matches: [{ path: { value: /v1 } }], backendRefs: [${backendRef("app")}] }`]),
    policyManifest("app-limits", "kind: HTTPRoute, name: app", ["{ requests: 3, unit: Hours }"]),
  );
  await startProxy({ "all.yaml": all }, ["--admin-address", admin, "--workers", "2"]);
  const url = `http://127.0.0.1:${port}`;
  return { admin, port, url, run: (...args: string[]) => proxyctl([...args, "--address", admin]) };
}

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

describe("a proxy in file mode", () => {
  test("shows the loaded configuration", async () => {
    const { run, url } = await startLimitedProxy();
    await (await fetch(`${url}/v1/a`)).text();
    const backends = await run("config", "backends", "gateway/web");
    expect(backends).toMatchObject({ exitCode: 0, stderr: "" });
    expect(backends.stdout).toMatch(/^Backend +app +default +backend +1\.00 +1 +\d+\.\d\dms$/m);
    expect((await run("config", "routes")).stdout).toMatch(
      /^app +default +0 +\* +\/v1\/\* +Backend\/default\/app +default\/app-limits#0 +Accepted$/m,
    );
    expect((await run("config", "policies")).stdout).toMatch(
      /^app-limits +default +HTTPRoute\/default\/app +True +Valid +3 requests\/hour$/m,
    );
    expect((await run("config", "all", "-o", "yaml")).stdout).toContain("name: default/web/http");
  });

  test("follows a request through a route, a limit and a backend to its end", async () => {
    const { run, admin, port } = await startLimitedProxy();
    const trace = (path: string) =>
      proxyctl(["trace", "--address", admin, "--port", String(port), "--", `http://app.example.com${path}`]);
    const served = await trace("/v1/a");
    expect(served).toMatchObject({ exitCode: 0, stderr: "" });
    expect(served.stdout).toMatch(/ Route +default\/app\/0 by /);
    expect(served.stdout).toMatch(/ Limit +allowed by default\/app-limits#0, requests 0 → 1 of 3$/m);
    expect(served.stdout).toMatch(/ Finished +200, /);
    expect(served.stdout).toMatch(/^response: 200 OK, /m);

    const unmatched = await trace("/nowhere");
    expect(unmatched.exitCode).toBe(0);
    expect(unmatched.stdout).toMatch(/ Route +no route of default\/web\/http matches/);
    expect(unmatched.stdout).toMatch(/ Finished +404 RouteNotFound/);

    await trace("/v1/a");
    await trace("/v1/a");
    const denied = await trace("/v1/a");
    expect(denied.exitCode).toBe(1);
    expect(denied.stdout).toMatch(/ Limit +denied by default\/app-limits#0, requests 3 → 3 of 3$/m);
    expect(denied.stdout).toMatch(/^response: 429 /m);
    expect((await run("limits", "top")).stdout).toMatch(
      /^default\/app-limits#0 +HTTPRoute\/default\/app +<none> +requests\/hour +3 +3 +0 +\d+s$/m,
    );
  });

  test("explains a denial by the id of the response", async () => {
    const { run, url } = await startLimitedProxy();
    let denied = await fetch(`${url}/v1/a`);
    for (let sent = 0; sent < 3; sent += 1) denied = await fetch(`${url}/v1/a`);
    expect(denied.status).toBe(429);
    const explained = await run("limits", "explain", denied.headers.get("x-request-id") ?? "");
    expect(explained).toMatchObject({ exitCode: 0, stderr: "" });
    expect(explained.stdout).toMatch(/^policy +default\/app-limits#0$/m);
    expect(explained.stdout).toMatch(/^counter +3 of 3 requests used/m);
    expect(explained.stdout).toContain("What would allow the next request:\n  - ");
  });

  test("shows and sets its log level", async () => {
    const { run } = await startLimitedProxy();
    expect(await run("logging")).toMatchObject({ exitCode: 0, stdout: "info\n" });
    expect((await run("logging", "info,proxy::config=debug")).stdout).toContain("proxy::config=debug");
    const wrong = await run("logging", "loud");
    expect(wrong).toMatchObject({ exitCode: 64, stdout: "" });
    expect(wrong.stderr).toContain("loud");
    expect(wrong.stderr).toContain("as in: proxyctl logging gateway/web info,proxy::config=debug");
    expect(wrong.stderr).not.toContain("POST");
    expect((await run("logging", "--reset")).stdout).toBe("info\n");
  });

  test("writes profiles that go tool pprof opens, even if the proxy is idle", async () => {
    const { run } = await startLimitedProxy();
    const directory = await mkdtemp(join(tmpdir(), "proxyctl-profile-"));
    try {
      for (const args of [["cpu", "--seconds", "1"], ["heap"]]) {
        const file = join(directory, `${args[0] ?? ""}.pb.gz`);
        const taken = await run("profile", ...args, "-o", file);
        expect(taken).toMatchObject({ exitCode: 0, stdout: "" });
      }
      const top = (kind: string): string => pprofTop(join(directory, `${kind}.pb.gz`));
      // An idle process has no sample of time.
      expect(top("cpu")).toContain("Type: cpu");
      expect(top("heap")).toMatch(/^Type: inuse_space\n[^]*proxy\/\S+\.[jt]s/);
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  test("is healthy, and shows its version", async () => {
    const { run } = await startLimitedProxy();
    const doctor = await run("doctor");
    expect({
      exitCode: doctor.exitCode,
      ill: doctor.stdout.split("\n").filter((line) => /^(warn|fail)/.test(line)),
    }).toEqual({ exitCode: 0, ill: [] });
    expect((await run("version")).stdout).toMatch(/^server {3}\d+\.\d+\.\d+ /m);
  });
});
