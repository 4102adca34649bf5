/** The exit codes of each command, as documented in docs/proxyctl.md. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { expect, onTestFinished, test } from "vitest";
import { startAdmin } from "../testing/admin.ts";
import { sampleDump } from "../testing/dump.ts";
import { Captured, proxyctl } from "../testing/run.ts";
import { chatTrace, streamOf } from "../testing/trace-events.ts";
import { leavesOf } from "./help-page.ts";
import { createProgram, ioOf } from "./program.ts";

const decision = {
  ...{ kind: "local", requestId: "r-1", at: "2026-11-21T10:00:05.000Z", worker: 1, method: "GET", path: "/" },
  ...{ authority: "h", rule: "default/chat/0", policy: "default/p", target: "HTTPRoute/default/chat", remedies: [] },
  counter: {
    ...{ entry: 0, counts: "requests", unit: "Minutes", used: 1, limit: 1 },
    ...{ windowStart: "2026-11-21T10:00:00.000Z", windowEnd: "2026-11-21T10:01:00.000Z" },
  },
};

const denied = chatTrace.map((event) =>
  event.message.type === "policy" ? { ...event, message: { ...event.message, decision: "denied" as const } } : event,
);

/** A proxy that serves the Gateways default/web and team/internal. */
async function startProxy() {
  const sound = { ...sampleDump, binds: sampleDump.binds.slice(0, 1), backends: sampleDump.backends.slice(0, 1) };
  const admin = await startAdmin({
    "GET /config_dump": sound,
    "GET /limits": { at: "2026-11-21T10:00:00.000Z", counters: [], countersLeftOut: 0, services: [], learned: [] },
    "GET /limits/decisions": (request, response) => {
      const decisions = request.url?.endsWith("=r-1") === true ? [decision] : [];
      response.end(JSON.stringify({ decisions, remembered: 1, capacity: 1024 }));
    },
    "POST /limits/reset": (request, response) => {
      if (request.url?.includes("policy=none") === true) {
        response.writeHead(400).end(JSON.stringify({ error: "no such policy", hint: "accepted: default/p" }));
      } else {
        const at = "2026-11-21T10:00:00.000Z";
        response.end(JSON.stringify({ at, policy: "default/p", counters: 0, entries: [], leftOut: [] }));
      }
    },
    "GET /logging": "current log level is info\n",
    "POST /logging": (request, response) => {
      if (/=(?:info|true)$/.test(request.url ?? "")) response.end("current log level is info\n");
      else response.writeHead(400).end(JSON.stringify({ error: 'found "loud"', hint: "POST /logging?level=" }));
    },
    "GET /debug/pprof/profile": "profile",
    "GET /debug/pprof/heap": "profile",
    "GET /debug/trace": (request, response) => {
      if (request.url?.includes("foo") === true) {
        response.writeHead(400).end(JSON.stringify({ error: "expression: unexpected end", hint: "see docs" }));
      } else {
        response.end(`: ready\n\n${streamOf(request.url?.includes("denied") === true ? denied : chatTrace)}`);
      }
    },
  });
  const folder = mkdtempSync(join(tmpdir(), "proxyctl-exit-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const backend = "{ apiVersion: gatewayproxy.dev/v1alpha1, kind: Backend, metadata: { name: a }, spec: SPEC }\n";
  const files = {
    "dump.json": JSON.stringify(sampleDump),
    "good.yaml": backend.replace("SPEC", "{ static: { host: a.example.com, port: 80 } }"),
    "bad.yaml": backend.replace("SPEC", "{ static: { host: a.example.com } }"),
    "lone.yaml": `apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: p }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: gone }]
  traffic: { rateLimit: { local: [{ requests: 1, unit: Minutes }] } }
`,
    "ingress.yaml": `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: shop, annotations: { nginx.ingress.kubernetes.io/limit-rps: "5" } }
`,
    "bandwidth.yaml": `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: shop, annotations: { nginx.ingress.kubernetes.io/limit-rate: "5" } }
`,
    "README.md": "# Manifests\n\n- **are**: *here*\n- and: [there](x): no\n",
    "denied.jsonl": denied.map((event) => `${JSON.stringify(event)}\n`).join(""),
    "served.jsonl": chatTrace.map((event) => `${JSON.stringify(event)}\n`).join(""),
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return { address: admin.address, folder };
}

/**
 * Arguments that every command with a proxy rejects. `AT` stands for `--address` and a proxy that serves gateway/web.
 */
function asking(command: string): readonly (readonly [line: string, exitCode: number])[] {
  return [
    [`${command} gateway/web AT`, 0],
    [`${command} Gateway/web AT`, 0],
    [`${command} gateway/nope AT`, command === "doctor" ? 1 : 2],
    [`${command} gateway/web -n team AT`, command === "doctor" ? 1 : 2],
    [`${command} --address 127.0.0.1:1`, command === "doctor" ? 1 : 2],
    [`${command} --kubeconfig /nowhere`, command === "doctor" ? 1 : 2],
    [`${command} pod/web-a AT`, 64],
    [`${command} service/web AT`, 64],
    [`${command} AT -n team`, 64],
    [`${command} AT --admin-port 15001`, 64],
    [`${command} AT --pod web-a`, 64],
    [`${command} AT --loud`, 64],
  ];
}

const cases: Readonly<Record<string, readonly (readonly [line: string, exitCode: number])[]>> = {
  "config all": [
    ...asking("config all"),
    ["config all --file DIR/dump.json", 0],
    ["config all gateway/nope --file DIR/dump.json", 2],
    ["config all pod/web-a --file DIR/dump.json", 64],
    ["config all --file DIR/nowhere", 2],
  ],
  "config backends": asking("config backends"),
  "config routes": asking("config routes"),
  "config policies": [...asking("config policies"), ["config policies AT -o xml", 64]],
  "config dump": asking("config dump"),
  trace: [
    ...asking("trace"),
    ["trace AT --expression denied", 1],
    ["trace AT --expression foo", 64],
    ["trace AT --port 80", 64],
    ["trace AT --port 1 -- /v1/models", 2],
    ["trace AT -- ftp://h/", 64],
    ["trace --file DIR/served.jsonl", 0],
    ["trace --file DIR/denied.jsonl", 1],
    ["trace --file DIR/denied.jsonl --raw", 1],
    ["trace --file DIR/README.md", 2],
    ["trace gateway/web --file DIR/served.jsonl", 64],
    ["trace --file DIR/served.jsonl -- /", 64],
  ],
  "limits top": [...asking("limits top"), ["limits top AT --interval 0", 64]],
  "limits explain": [...asking("limits explain r-1"), ["limits explain r-2 AT", 1], ["limits explain AT", 64]],
  "limits reset": [
    ...asking("limits reset p"),
    ["limits reset none AT", 64],
    ["limits reset AT", 64],
    ["limits reset p --entry 0 --key ada -o json AT", 0],
  ],
  "limits test": [
    ["limits test -f DIR/lone.yaml --rate 1/m", 0],
    ["limits test -f DIR/lone.yaml --rate 5/m", 0],
    ["limits test -f DIR/lone.yaml --rate 5/m --fail-on-deny", 1],
    ["limits test -f DIR/bad.yaml --rate 1/m", 2],
    ["limits test -f DIR/nowhere --rate 1/m", 2],
    ["limits test -f DIR/lone.yaml", 64],
    ["limits test -f DIR/lone.yaml --rate fast", 64],
  ],
  doctor: asking("doctor"),
  convert: [
    ["convert -f DIR/ingress.yaml", 0],
    ["convert -f DIR/bandwidth.yaml", 1],
    ["convert -f DIR/good.yaml", 2],
    ["convert -f DIR/nowhere", 2],
    ["convert", 64],
  ],
  validate: [
    ["validate -f DIR/good.yaml", 0],
    ["validate -f DIR/bad.yaml", 1],
    ["validate -f DIR/lone.yaml", 0],
    ["validate -f DIR/lone.yaml --strict", 1],
    ["validate -f DIR", 1],
    ["validate -f DIR/README.md", 2],
    ["validate -f DIR/nowhere", 2],
    ["validate", 64],
    ["validate -f DIR/lone.yaml --strict --no-references", 64],
  ],
  logging: [
    ...asking("logging"),
    ["logging info AT", 0],
    ["logging gateway/web info AT", 0],
    ["logging --list AT", 0],
    ["logging --reset AT", 0],
    ["logging info --reset AT", 64],
    ["logging loud AT", 64],
    ["logging gateway/web loud AT", 64],
  ],
  "profile cpu": [
    ...asking("profile cpu -o -"),
    ["profile cpu AT -o DIR/cpu.pb.gz", 0],
    ["profile cpu AT -o DIR/nowhere/cpu.pb.gz", 2],
    ["profile cpu AT -s 301", 64],
  ],
  "profile heap": [...asking("profile heap -o -"), ["profile heap AT -o DIR", 2]],
  version: [...asking("version"), ["version --client", 0], ["version --client gateway/web", 64]],
  completion: [
    ["completion bash", 0],
    ["completion", 64],
    ["completion tcsh", 64],
  ],
};

test("every command has its cases", () => {
  const [stdout, stderr, stdin] = [new Captured(), new Captured(), new PassThrough()];
  const { signal } = new AbortController();
  const io = ioOf({ stdin, stdout, stderr, env: {}, clock: systemClock, signal }, () => undefined);
  const commands = leavesOf(createProgram(io), []).map(({ path }) => path.join(" "));
  expect(Object.keys(cases).sort()).toEqual([...commands].sort());
});

test.each(Object.entries(cases))("%s exits with what the page says", async (_, lines) => {
  const { address, folder } = await startProxy();
  const found = await Promise.all(
    lines.map(async ([line]) => {
      const words = line.replaceAll("DIR", folder).split(" ");
      const argv = words.flatMap((word) => (word === "AT" ? ["--address", address] : word));
      const run = await proxyctl(argv);
      // Who has failed says why.
      return [line, run.exitCode >= 2 && run.stderr === "" ? "silent" : run.exitCode];
    }),
  );
  expect(found).toEqual(lines);
});
