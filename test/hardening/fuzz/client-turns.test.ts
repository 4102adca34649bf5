/**
 * Bytes of clients, unusual ones and many of them, against a proxy process: no event loop is blocked for 100 ms, so
 * that the bytes of one client delay no other. The time is the CPU time of the proxy's threads, which other load on the
 * machine does not change.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, onTestFinished } from "vitest";
import { respondWith, startBackend } from "../../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
} from "../../support/gateway.ts";
import { modelEndpoints } from "../../../proxy/src/llm/model-endpoints.ts";
import { freePort } from "../../support/free-port.ts";
import { programFile } from "../../support/program-file.ts";
import { mutated } from "../support/arbitraries.ts";
import { fuzz } from "../support/fuzz.ts";
import { clientRequests, http1Tokens } from "../support/http1-seeds.ts";
import { clientFrames, frameText, http2Tokens } from "../support/http2-seeds.ts";
import { perTest } from "../support/per-test.ts";
import { startWatched } from "../support/watched-process.ts";

const main = programFile("proxy", "proxy");
const maxHeldMs = 100;
/** A single slow run may have other causes. */
const confirmations = 3;
/** Connections that send the same bytes at once. */
const connections = 4;
/** The maximum that each connection sends. */
const sentBytes = 512 * 1024;
/** Less than the maximum of a request head. */
const longPartBytes = 12_000;
/** After this time without bytes the proxy is assumed to be done. */
const quietMs = 50;

const hello = `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${frameText(4, 0, 0)}`;

/** Sends, and resolves when the proxy closes or is silent. */
function send(port: number, text: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(text, "latin1"));
    socket.setTimeout(quietMs, () => void socket.destroy());
    socket.on("error", () => undefined);
    socket.on("close", () => resolve());
    socket.resume();
  });
}

const world = perTest(async () => {
  const backend = await startBackend(respondWith(200, "ok"));
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), "client-turns-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const all = manifests(
    gatewayManifest(port),
    backendManifest("b", backend.port),
    routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
    // Has every part that reads requests to models.
    modelManifest("m", backend.port),
    routeManifest("m", [`backendRefs: [${backendRef("m")}]`], "hostnames: [model.test]"),
    routeManifest("t", [`backendRefs: [${backendRef("b")}]`], "hostnames: [tokens.test]"),
    policyManifest("p", "kind: HTTPRoute, name: t", ["{ tokens: 1000000000, unit: Hours }"]),
  );
  await writeFile(join(folder, "all.yaml"), all);
  const proxy = await startWatched({
    main,
    args: ["--config-dir", folder, "--workers", "1", "--admin-address", `127.0.0.1:${await freePort()}`],
    env: {},
    threads: 2,
  });
  const isServing = (): Promise<boolean> =>
    fetch(`http://127.0.0.1:${port}/`).then(
      ({ status }) => status === 200,
      () => false,
    );
  await expect.poll(isServing, { timeout: 30_000 }).toBe(true);
  // Compiles the code first.
  for (const text of [...clientRequests, ...clientFrames.map((frames) => hello + frames)]) await send(port, text);
  // A start takes long, which shows that the watch works.
  expect(await proxy.longestHeldMs()).toBeGreaterThan(0);
  return { port, proxy, isServing };
});

/** A provider with one prescribed model. */
function modelManifest(name: string, port: number): string {
  return `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ${name}, namespace: default }
spec:
  ai: { provider: { openai: { model: cheap } }, host: 127.0.0.1, port: ${port} }
`;
}

/** Texts that a pattern may begin to match, and would have to backtrack from, again and again. */
const repeatable = [
  ...modelEndpoints.flatMap(({ paths }) => paths.flatMap((path) => path.split("/").map((segment) => `/${segment}`))),
  ...modelEndpoints.flatMap(({ paths }) =>
    paths.map((path) => `/${path.replace("{model}", "a").replaceAll("*", "a")}`),
  ),
  ...["%20", "%2F", "\xa0", " ", "\t", ";", "=", "&", ",", "/", "..", "[", "model%5B", '"', "\\", "bearer ", "a.", "1"],
];

/** A request with one long part, which repeats one text. */
const longRequest = fc
  .record({
    host: fc.constantFrom("a", "model.test", "tokens.test"),
    position: fc.constantFrom(
      "path",
      "query",
      "content-type",
      "cookie",
      "x-dashscope-async",
      "x-model",
      "accept-encoding",
    ),
    start: fc.constantFrom("", "/", "/v2/models", "model%5B", "application/json", "a=", "gzip"),
    unit: fc.oneof(fc.constantFrom(...repeatable), fc.string({ minLength: 1, maxLength: 6 })),
    end: fc.constantFrom("", "!", "x", "/a:b", "%0Ax=c", ";", '"'),
  })
  .map(({ host, position, start, unit, end }) => {
    const long = start + unit.repeat(Math.floor(longPartBytes / unit.length)) + end;
    const inTarget = long.replaceAll(" ", "+");
    const path = inTarget.startsWith("/") ? inTarget : `/${inTarget}`;
    const target = position === "path" ? path : "/v1/chat/completions";
    const query = position === "query" ? `?${inTarget}` : "";
    const field = position === "path" || position === "query" ? "" : `${position}: ${long}\r\n`;
    return `POST ${target}${query} HTTP/1.1\r\nHost: ${host}\r\n${field}Content-Length: 2\r\n\r\n{}`;
  });

const bytes = fc.record({
  isHttp2: fc.boolean(),
  long: fc.option(longRequest, { freq: 2 }),
  http1: mutated(clientRequests, http1Tokens),
  http2: mutated(clientFrames, http2Tokens),
  /** Most cases fail on one sending, and some only on many. */
  times: fc.oneof({ weight: 3, arbitrary: fc.constantFrom(1, 100) }, fc.constant(100_000)),
});

fuzz("client-turns", {
  prepare: world,
  arbitrary: bytes,
  async check({ isHttp2, long, http1, http2, times }) {
    const { port, proxy, isServing } = await world();
    const once = isHttp2 ? http2 : http1;
    const text =
      long ?? (isHttp2 ? hello : "") + once.repeat(Math.min(times, Math.ceil(sentBytes / Math.max(1, once.length))));
    const longestHeld = async (): Promise<number> => {
      await Promise.all(Array.from({ length: connections }, () => send(port, text)));
      expect(proxy.hasEnded(), `the proxy ended:\n${proxy.output()}`).toBe(false);
      expect(await isServing()).toBe(true);
      return proxy.longestHeldMs();
    };
    let heldAtMost = await longestHeld();
    for (let again = 1; again < confirmations && heldAtMost >= maxHeldMs; again++) heldAtMost = await longestHeld();
    expect(heldAtMost).toBeLessThan(maxHeldMs);
  },
  quickRuns: 8,
});
