/** The life of a process from start to end: readiness, metrics, the access log, and the shutdown. */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";
import { endHeaders, endStream, frame, framesOf, frameType, openRawHttp2, rootRequest } from "../support/raw-http2.ts";
import { freePort } from "../support/free-port.ts";
import { type ProxyProcess, spawnClusterProxy, spawnProxy, startProxy } from "../support/proxy-process.ts";

interface Running {
  readonly proxy: ProxyProcess;
  readonly url: string;
}

async function start(backendPort: number, policy = "", args: readonly string[] = []): Promise<Running> {
  const port = await freePort();
  const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
  const proxy = await startProxy(
    { "all.yaml": manifests(gatewayManifest(port), backendManifest("b", backendPort), route, policy) },
    args,
  );
  return { proxy, url: `http://127.0.0.1:${port}` };
}

const kubeconfigFor = ({ port }: AddressInfo): string => `
apiVersion: v1
kind: Config
current-context: c
contexts: [{ name: c, context: { cluster: c, user: u } }]
clusters: [{ name: c, cluster: { server: "http://127.0.0.1:${port}", insecure-skip-tls-verify: true } }]
users: [{ name: u, user: {} }]
`;

const ready = async ({ readiness }: ProxyProcess): Promise<{ status: number; text: string }> => {
  const response = await fetch(`${readiness}/healthz/ready`);
  return { status: response.status, text: await response.text() };
};

test("readiness and metrics have one page each, by GET", async () => {
  const { proxy } = await start((await startBackend()).port);
  expect(await ready(proxy)).toEqual({ status: 200, text: "ready\n" });
  expect((await fetch(`${proxy.readiness}/other`)).status).toBe(404);
  const posted = await fetch(`${proxy.stats}/metrics`, { method: "POST" });
  expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
});

test("metrics add up the counts of all workers", async () => {
  const { proxy, url } = await start(
    (await startBackend(respondWith(200))).port,
    policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 30, unit: Hours }"]),
    ["--workers", "2"],
  );
  // Each has its own connection, so that the kernel spreads them over the workers.
  for (let i = 0; i < 40; i++) await (await fetch(url, { headers: { connection: "close" } })).arrayBuffer();
  const text = await (await fetch(`${proxy.stats}/metrics`)).text();
  const sample = (name: string, ...labels: readonly string[]): number | undefined => {
    const line = text.split("\n").find((l) => l.startsWith(`${name}{`) && labels.every((label) => l.includes(label)));
    return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(" ")));
  };
  expect(sample("gateway_proxy_http_requests_total", 'route="default/r"', 'code="200"')).toBe(30);
  expect(sample("gateway_proxy_http_requests_total", 'reason="RateLimited"', 'code="429"')).toBe(10);
  expect(sample("gateway_proxy_limit_decisions_total", 'policy="default/p"', 'decision="denied"')).toBe(10);
  expect(sample("gateway_proxy_upstream_requests_total", 'backend="Backend/default/b"')).toBe(30);
  expect(text).toContain("gateway_proxy_workers 2\n");
});

test("the access log has the route, backend, tokens, and the entry that denied", async () => {
  const { proxy, url } = await start(
    (
      await startBackend((_request, response) => {
        response.setHeader("content-type", "application/json");
        response.end('{"model":"m","usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5}}');
      })
    ).port,
    policyManifest("p", "kind: HTTPRoute, name: r", ["{ tokens: 5, unit: Hours }"]),
  );
  await (await fetch(`${url}/chat?secret=1`)).arrayBuffer();
  await (await fetch(`${url}/chat`)).arrayBuffer();
  const served = await proxy.logged(({ module, status }) => module === "proxy::access" && status === 200);
  expect(served).toMatchObject({ route: "default/r", backend: "Backend/default/b", method: "GET", path: "/chat" });
  expect(JSON.stringify(served)).toMatch(/"total":5|"tokensTotal":5|"totalTokens":5/);
  expect(JSON.stringify(served)).not.toContain("secret");
  const denied = await proxy.logged(({ status }) => status === 429);
  expect(denied).toMatchObject({ reason: "RateLimited" });
  expect(JSON.stringify(denied)).toContain("default/p");
});

test("SIGTERM: before the cluster has responded, exit 0", async () => {
  const cluster = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void cluster.close());
  const connected = once(cluster, "connection");
  await once(cluster, "listening");
  const kubeconfig = join(await mkdtemp(join(tmpdir(), "kubeconfig-")), "config");
  onTestFinished(() => rm(dirname(kubeconfig), { recursive: true }));
  await writeFile(kubeconfig, kubeconfigFor(cluster.address() as AddressInfo));
  const proxy = await spawnClusterProxy(kubeconfig, "default/gw");
  const [connection] = (await connected) as [Socket];
  onTestFinished(() => void connection.destroy());
  proxy.kill("SIGTERM");
  expect(await proxy.exited).toBe(0);
});

test("SIGTERM: not ready, no new connections, requests in progress finish, exit 0", async () => {
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<undefined>();
  const { promise: goOn, resolve: finish } = Promise.withResolvers<undefined>();
  const { port } = await startBackend((request, response) => {
    if (request.url === "/quick") {
      response.end("quick");
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("data: first\n\n");
    arrive(undefined);
    void goOn.then(() => response.end("data: last\n\n"));
  });
  const { proxy, url } = await start(port, "", ["--workers", "2"]);
  const stream = await fetch(url);
  await arrived;
  proxy.kill("SIGTERM");
  await proxy.logged(({ msg }) => msg === "shutting down");
  expect((await ready(proxy)).text).toBe("not ready: shutting down\n");
  await expect.poll(() => isPortClosed(url)).toBe(true);
  finish(undefined);
  expect(await stream.text()).toBe("data: first\n\ndata: last\n\n");
  expect(await proxy.exited).toBe(0);
});

describe("SIGTERM: during the drain delay clients get close or GOAWAY, and every request is served", () => {
  // Longer than any test takes; the second signal ends it.
  const delay = ["--drain-delay", "1h", "--drain-timeout", "1h"];

  test("HTTP/1.1: open connections and new ones are served, each a last time", async () => {
    const { proxy, url } = await start((await startBackend(respondWith(200, "ok"))).port, "", delay);
    const { hostname, port } = new URL(url);
    const kept = connect(Number(port), hostname);
    onTestFinished(() => void kept.destroy());
    const requestBytes = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    kept.write(requestBytes);
    const [first] = (await once(kept, "data")) as [Buffer];
    expect(first.toString()).not.toMatch(/^connection: close/im);
    proxy.kill("SIGTERM");
    await expect.poll(async () => (await fetch(url)).headers.get("connection")).toBe("close");
    kept.write(requestBytes);
    const [last] = (await once(kept, "data")) as [Buffer];
    expect(last.toString()).toMatch(/^HTTP\/1.1 200 [^]*^connection: close/im);
    await once(kept, "close");
    // The proxy closes, without a request to do so.
    expect(await rawHttp(url, requestBytes)).toMatchObject({ status: 200, body: "ok" });
  });

  test("HTTP/2: streams that begin after GOAWAY are served", async () => {
    const { proxy, url } = await start((await startBackend(respondWith(200, "ok"))).port, "", delay);
    const { socket, received } = openRawHttp2(url);
    const requestBytes = (stream: number) => frame(frameType.headers, endHeaders | endStream, stream, rootRequest);
    const hasResponse = (stream: number) =>
      framesOf(received()).some((it) => it.type === frameType.headers && it.stream === stream);
    const acknowledgement = frame(frameType.settings, 1, 0);
    socket.write(Buffer.concat([acknowledgement, requestBytes(1)]));
    await expect.poll(() => hasResponse(1)).toBe(true);
    proxy.kill("SIGTERM");
    const goaway = () =>
      framesOf(received())
        .find(({ type }) => type === frameType.goaway)
        ?.payload.toString("hex");
    await expect.poll(goaway).toBe("7fffffff00000000");
    socket.write(requestBytes(3));
    await expect.poll(() => hasResponse(3)).toBe(true);

    const late = openRawHttp2(url);
    const lateTypes = () => framesOf(late.received()).map(({ type }) => type);
    late.socket.write(Buffer.concat([acknowledgement, requestBytes(1)]));
    await expect.poll(lateTypes).toEqual(expect.arrayContaining([frameType.headers, frameType.goaway]));
    expect(lateTypes()[0]).toBe(frameType.settings);
  });
});

test("SIGTERM: a stream that does not end is reset at the deadline", async () => {
  const { port } = await startBackend((_request, response) => {
    response.write("data: first\n\n");
  });
  const { proxy, url } = await start(port, "", ["--drain-timeout", "200ms"]);
  const stream = await fetch(url);
  proxy.kill("SIGTERM");
  await expect(stream.text()).rejects.toThrow();
  expect(await proxy.exited).toBe(0);
});

test("a second signal does not wait", async () => {
  const { port } = await startBackend((_request, response) => {
    response.write("data: first\n\n");
  });
  const { proxy, url } = await start(port);
  const stream = await fetch(url);
  proxy.kill("SIGTERM");
  await proxy.logged(({ msg }) => msg === "shutting down");
  proxy.kill("SIGTERM");
  expect(await proxy.exited).toBe(1);
  await expect(stream.text()).rejects.toThrow();
});

test("reports a missing folder together with the addresses in use", async () => {
  const { proxy: first } = await start((await startBackend()).port);
  const taken = new URL(first.stats).host;
  const second = await spawnProxy({}, ["--stats-address", taken, "--config-dir", "/nonexistent/manifests"]);
  expect(await second.exited).toBe(1);
  expect(second.stderr().split("\n")).toEqual([
    "cannot start:",
    `  --stats-address: the port is taken by another process (listen EADDRINUSE: address already in use ${taken})`,
    expect.stringMatching(/^ {2}cannot read the configuration folder "\/nonexistent\/manifests": /),
    "",
  ]);
});

test("reports every own address that is in use, with its setting, and ends with status 1", async () => {
  const { proxy: first } = await start((await startBackend()).port);
  const taken = { stats: new URL(first.stats).host, readiness: new URL(first.readiness).host };
  const second = await spawnProxy({ "all.yaml": gatewayManifest(await freePort()) }, [
    ...["--stats-address", taken.stats],
    ...["--readiness-address", taken.readiness],
  ]);
  expect(await second.exited).toBe(1);
  expect(second.stderr().split("\n")).toEqual([
    "cannot start:",
    `  --readiness-address: the port is taken by another process (listen EADDRINUSE: address already in use ${taken.readiness})`,
    `  --stats-address: the port is taken by another process (listen EADDRINUSE: address already in use ${taken.stats})`,
    "",
  ]);
});

function isPortClosed(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    socket.on("connect", () => {
      socket.destroy();
      resolve(false);
    });
    socket.on("error", () => resolve(true));
  });
}
