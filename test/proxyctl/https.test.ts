/** Real TLS: `proxyctl trace` to an HTTPS listener, and an API server with the authority of the kubeconfig. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { startKubeApi } from "../../proxyctl/src/kube/testing/kube-api.ts";
import { startAdmin } from "../../proxyctl/src/testing/admin.ts";
import { proxyctl } from "../../proxyctl/src/testing/run.ts";
import { respondWith, startBackend } from "../support/backend.ts";
import { TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { backendManifest, backendRef, manifests, routeManifest } from "../support/gateway.ts";
import { freePort } from "../support/free-port.ts";
import { startProxy } from "../support/proxy-process.ts";
import { tlsGatewayManifest, tlsSecretManifest } from "../support/tls.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

describeWith(["openssl"], "proxyctl over TLS", ({ openssl }) => {
  const directory = mkdtempSync(join(tmpdir(), "proxyctl-https-"));
  afterAll(() => rmSync(directory, { recursive: true }));
  let ours: TestAuthority;
  let others: TestAuthority;
  beforeAll(() => {
    ours = new TestAuthority(openssl, directory, "ours");
    others = new TestAuthority(openssl, directory, "others");
  });

  test("traces a request to an HTTPS listener, and verifies its certificate as curl does", async () => {
    const backend = await startBackend(respondWith(200));
    const port = await freePort();
    const all = manifests(
      tlsGatewayManifest([
        `{ name: https, port: ${port}, protocol: HTTPS, tls: { certificateRefs: [{ name: cert }] } }`,
      ]),
      tlsSecretManifest("cert", ours.issue("app", "DNS:app.example", "IP:127.0.0.1")),
      backendManifest("app", backend.port),
      routeManifest("app", [`backendRefs: [${backendRef("app")}]`]),
    );
    const proxy = await startProxy({ "all.yaml": all }, ["--workers", "1"]);
    const reach = ["--address", proxy.admin.slice("http://".length), "--port", String(port)];
    const trace = (...request: string[]) => proxyctl(["trace", ...reach, "--", ...request]);
    const { certFile } = ours.authority;

    for (const [url, ...flags] of [
      ["https://app.example/", "--cacert", certFile],
      ["https://127.0.0.1/", "--cacert", certFile],
      ["https://other.example/", "-k"],
    ] as const) {
      const run = await trace(...flags, url);
      expect([url, run.exitCode, run.stderr]).toEqual([url, 0, ""]);
      expect(run.stdout).toContain(`GET ${url} from 127.0.0.1\n`);
      expect(run.stdout).toMatch(/^response: 200 OK, /m);
    }
    for (const [url, ...flags] of [
      ["https://app.example/"],
      ["https://app.example/", "--cacert", others.authority.certFile],
      ["https://other.example/", "--cacert", certFile],
    ] as const) {
      const run = await trace(...flags, url);
      expect([url, run.exitCode, run.stdout]).toEqual([url, 2, ""]);
      expect(run.stderr).toMatch(/certificate|altnames/);
      expect(run.stderr).toContain("--cacert FILE");
    }
    const noFile = await trace("--cacert", `${directory}/none.crt`, "https://app.example/");
    expect(noFile.exitCode).toBe(64);
    expect(noFile.stderr).toContain("the file of --cacert cannot be read");
  });

  test("connects to an API server over HTTPS, and only with the authority of the kubeconfig", async () => {
    const { port } = await startAdmin({ "GET /logging": "current log level is web-a\n" });
    const { cert, key } = ours.issue("api", "IP:127.0.0.1");
    const gateways = [{ name: "web" }];
    const pods = [{ name: "web-a", gateway: "web", ports: { 15_000: port } }];
    const send = async (authority: string) => {
      const api = await startKubeApi({ gateways, pods, token: "s3cret", tls: { cert, key, authority } });
      return { api, ...(await proxyctl(["logging", "gateway/web", "--kubeconfig", api.kubeconfig])) };
    };
    const known = await send(ours.authority.cert);
    expect(known).toMatchObject({ exitCode: 0, stdout: "web-a\n", stderr: "" });
    expect(known.api.url).toMatch(/^https:/);
    expect(known.api.requests).toContainEqual(expect.stringMatching(/^UPGRADE .*\/portforward/));

    const unknown = await send(others.authority.cert);
    expect(unknown).toMatchObject({ exitCode: 2, stdout: "" });
    expect(unknown.stderr).toContain("certificate");
    expect(unknown.api.requests).toEqual([]);
  });
});
