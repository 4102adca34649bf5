/** A worker that reaches the maximum of its heap, in the middle of a decision: only its own connections end. */
import { once } from "node:events";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import { freePort } from "../support/free-port.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
} from "../support/gateway.ts";
import { startProxy } from "../support/proxy-process.ts";
import { startRawBackend } from "../support/raw-backend.ts";

const preload = pathToFileURL(join(import.meta.dirname, "../support/exhaust-heap.ts")).href;
const limit = 1_000_000;
const connections = 24;

interface Outcome {
  readonly status: number;
  readonly remaining: number;
}

/** A client with one connection, which it opens again after it was closed. */
function startClient(port: number): () => Promise<Outcome | "closed"> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  return () =>
    new Promise((resolve) => {
      const sent = request({ host: "127.0.0.1", port, agent }, (response) => {
        response.resume().on("end", () => {
          const remaining = Number(response.headers["x-ratelimit-remaining"]);
          resolve({ status: response.statusCode ?? 0, remaining });
        });
      });
      sent.on("error", () => resolve("closed")).end();
    });
}

test("a worker at the maximum of its heap is replaced, with its locks released, and the other one serves", async () => {
  // It closes no connection while the workers wait for the lock.
  const backend = await startRawBackend(() => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
  const port = await freePort();
  const files = {
    "all.yaml": manifests(
      gatewayManifest(port),
      backendManifest("b", backend),
      routeManifest("chat", [`backendRefs: [${backendRef("b")}]`]),
      policyManifest("limits", "kind: HTTPRoute, name: chat", [`{ requests: ${limit}, unit: Hours }`]),
    ),
  };
  const env = { NODE_OPTIONS: `--import ${preload}`, EXHAUST_HEAP_LIMIT: String(544 * 1024 * 1024) };
  const proxy = await startProxy(files, ["--workers", "2"], env);
  const clients = Array.from({ length: connections }, () => startClient(port));
  const sendAll = () => Promise.all(clients.map((send) => send()));
  expect((await sendAll()).filter((outcome) => outcome === "closed")).toEqual([]);

  proxy.kill("SIGUSR2");
  // Until the first worker has the signal.
  let outcomes: readonly (Outcome | "closed")[] = [];
  let sent = connections;
  do {
    outcomes = await sendAll();
    sent += connections;
  } while (!outcomes.includes("closed"));
  // One worker has died with the connections that it had, and no other.
  const closed = outcomes.filter((outcome) => outcome === "closed").length;
  expect(closed).toBeGreaterThan(0);
  expect(closed).toBeLessThan(connections);
  expect(outcomes.filter((outcome) => outcome !== "closed" && outcome.status !== 200)).toEqual([]);

  // The counter whose lock the dead worker has held is used at once, by the clients of both.
  const after = await sendAll();
  sent += connections;
  expect(after.map((outcome) => outcome !== "closed" && outcome.status)).toEqual(clients.map(() => 200));
  const remaining = Math.min(...after.map((outcome) => (outcome === "closed" ? limit : outcome.remaining)));
  expect(limit - remaining).toBeLessThanOrEqual(sent);
  expect(limit - remaining).toBeGreaterThanOrEqual(sent - closed);

  const death = await proxy.logged(({ msg }) => msg === "worker died; it is replaced");
  expect(JSON.stringify(death)).toContain("ERR_WORKER_OUT_OF_MEMORY");
  const restarted = async (): Promise<string> => await (await fetch(`${proxy.stats}/metrics`)).text();
  await expect.poll(restarted, { timeout: 30_000 }).toMatch(/gateway_proxy_worker_restarts_total 1\b/);
  expect((await fetch(`${proxy.readiness}/healthz/ready`)).status).toBe(200);
}, 60_000);

test("the requests in progress of a worker that died no longer count", async () => {
  const backend = await startBackend((incoming, response) => {
    if (incoming.url !== "/held") response.end("quick");
  });
  const port = await freePort();
  const files = {
    "all.yaml": manifests(
      gatewayManifest(port),
      backendManifest("b", backend.port),
      routeManifest("chat", [`backendRefs: [${backendRef("b")}]`]),
      policyManifest("limits", "kind: HTTPRoute, name: chat", ["{ concurrent: 1 }"]),
    ),
  };
  const env = { NODE_OPTIONS: `--import ${preload}`, EXHAUST_HEAP_LIMIT: String(544 * 1024 * 1024) };
  const proxy = await startProxy(files, ["--workers", "1"], env);
  const held = request({ host: "127.0.0.1", port, path: "/held" }).end();
  const isClosed = once(held, "error");
  await expect.poll(() => backend.requests.length).toBe(1);
  const send = startClient(port);
  expect(await send()).toMatchObject({ status: 429 });

  proxy.kill("SIGUSR2");
  while ((await send()) !== "closed");
  await isClosed;
  await expect.poll(send, { timeout: 30_000 }).toMatchObject({ status: 200 });
}, 60_000);
