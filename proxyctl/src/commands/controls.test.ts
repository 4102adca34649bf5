/**
 * Control characters in texts of hostile tenants, clients and proxies are escaped on the terminal, by every command.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { configDumpSchema } from "@gatewayproxy/admin-api/config-dump";
import { decisionsSchema } from "@gatewayproxy/admin-api/decisions";
import { limitsResetSchema, limitsSchema } from "@gatewayproxy/admin-api/limits";
import { traceEventSchema } from "@gatewayproxy/admin-api/trace-event";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { parse as parseYaml } from "yaml";
import type { z } from "zod";
import { startAdmin } from "../testing/admin.ts";
import { sampleDump } from "../testing/dump.ts";
import { absentService, shadowCounter } from "../testing/limits.ts";
import { Captured, proxyctl } from "../testing/run.ts";
import { chatTrace, streamOf } from "../testing/trace-events.ts";

/** Follows each control of a hostile text, to distinguish it from controls of proxyctl. */
const tail = "PWN";
const forbidden = new RegExp(
  `[\\u0000-\\u0008\\u000b-\\u001a\\u001c-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]`,
);
/** What proxyctl writes itself: Select Graphic Rendition of `output/style.ts`. */
const ownStyles = /\u001b\[(?:1|2|7|22|27|31|32|33|39)m(?!PWN)/g;

const control = fc.oneof(
  fc.constantFrom("\u001b[31m", "\u001b[8m", "\u001b]0;title\u0007", "\u001b[2J", "\u001bc", "\u009b2J", "\r", "\n"),
  fc.constantFrom("\u202e", "\u2066", "\u200f", "\u061c", "\u2028", "\u007f", "\u0085", "\u0000", "\t", "\b", "'\"\\"),
);
const hostileText = fc
  .array(control, { minLength: 1, maxLength: 3 })
  .map((all) => all.map((one) => one + tail).join(""));

/** Appends the text to every string of the value for which the schema accepts any text. */
function infest<T>(schema: z.ZodType<T>, value: T, text: string): T {
  const paths = freeTexts(schema, value);
  return paths.reduce((all, path) => replaced(all, path, (old) => old + text), value);
}

const knownPaths = new Map<z.ZodType, readonly (readonly string[])[]>();

function freeTexts<T>(schema: z.ZodType<T>, value: T): readonly (readonly string[])[] {
  const known = knownPaths.get(schema);
  if (known !== undefined) return known;
  const paths = textsOf(value, []).filter(
    (path) => schema.safeParse(replaced(value, path, (old) => `${old}\u001b`)).success,
  );
  knownPaths.set(schema, paths);
  return paths;
}

function textsOf(value: unknown, path: readonly string[]): readonly (readonly string[])[] {
  if (typeof value === "string") return [path];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => textsOf(inner, [...path, key]));
}

function replaced<T>(value: T, [key, ...rest]: readonly string[], change: (old: string) => string): T {
  if (key === undefined) return change(String(value)) as T;
  if (Array.isArray(value)) {
    return (value as readonly unknown[]).map((each, at) =>
      String(at) === key ? replaced(each, rest, change) : each,
    ) as T;
  }
  const record = value as Readonly<Record<string, unknown>>;
  return { ...record, [key]: replaced(record[key], rest, change) } as T;
}

const denial = {
  requestId: "r-1",
  at: "2026-11-21T10:00:05.000Z",
  worker: 1,
  method: "POST",
  authority: "chat.example.com",
  path: "/v1/chat/completions",
  rule: "default/chat/0",
  policy: "default/chat-limits",
  target: "HTTPRoute/default/chat",
  remedies: ["the window ends at 10:01:00"],
} as const;
const decisions = decisionsSchema.parse({
  decisions: [
    {
      kind: "global",
      ...denial,
      by: "service",
      service: "Service/default/ratelimit:8081",
      domain: "chat",
      descriptors: [{ entries: [{ key: "user", value: { text: "ada", isSecret: false } }], code: "OVER_LIMIT" }],
    },
  ],
  remembered: 1,
  capacity: 1_024,
});
const limits = limitsSchema.parse({
  at: "2026-11-21T10:00:00.000Z",
  counters: [shadowCounter("ada")],
  countersLeftOut: 0,
  services: [absentService],
  learned: [],
});

const reset = limitsResetSchema.parse({
  at: "2026-11-21T10:00:00.000Z",
  policy: "default/chat-limits",
  key: { text: "ada", isSecret: false },
  counters: 1,
  entries: [{ entry: 0, name: "user", target: "HTTPRoute/default/chat", source: "local", bucket: "team", counters: 1 }],
  leftOut: [{ entry: 1, target: "HTTPRoute/default/chat", source: "local" }],
});

/** A proxy with hostile text in every response, error responses included. */
async function startHostile(text: string) {
  const dump = infest(configDumpSchema, sampleDump, text);
  const trace = chatTrace.map((event) => {
    const paths = textsOf(event, []).filter(
      (path) => traceEventSchema.safeParse(replaced(event, path, (old) => `${old}\u001b`)).success,
    );
    return paths.reduce((all, path) => replaced(all, path, (old) => old + text), event);
  });
  const live = infest(limitsSchema, limits, text);
  const { address } = await startAdmin({
    "GET /config_dump": dump,
    "GET /limits": live,
    "GET /limits/decisions": infest(decisionsSchema, decisions, text),
    "POST /limits/reset": infest(limitsResetSchema, reset, text),
    "GET /logging": `current log level is info${text.replaceAll("\n", " ")}\nproxy::config info ${text}\n`,
    "POST /logging": (_, response: ServerResponse) => {
      response.writeHead(500).end(JSON.stringify({ error: `no${text}`, hint: `see${text}` }));
    },
    "GET /debug/trace": (_, response: ServerResponse) => void response.end(`: ready\n\n${streamOf(trace)}`),
  });
  return { address, dump, live, trace };
}

/** Standard output of a terminal. */
class TerminalCapture extends Captured {
  readonly isTTY = true;
  readonly columns = 100;
  readonly rows = 40;
}

const commands = [
  "config all",
  "config all -o wide",
  "config all -o json",
  "config all -o yaml",
  "config routes",
  "config routes -o wide",
  "config backends -o wide",
  "config policies",
  "config policies -o yaml",
  "config dump",
  "limits top --once",
  "limits top --once -o json",
  "limits top --once -o yaml",
  "limits explain r-1",
  "limits explain r-1 -o json",
  "limits reset p",
  "limits reset p -o json",
  "logging",
  "logging --list",
  "logging debug",
  "doctor",
  "doctor -o yaml",
  "version",
  "version -o json",
  "trace --plain",
  "trace --raw",
];

test("no text of a proxy steers the terminal, in any view", { timeout: 60_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(hostileText, fc.boolean(), async (text, isTerminal) => {
      const { address } = await startHostile(text);
      for (const command of commands) {
        const [stdout, stderr] = [isTerminal ? new TerminalCapture() : new Captured(), new Captured()];
        await proxyctl([...command.split(" "), "--address", address], { stdout, stderr });
        const written = stdout.text + stderr.text;
        expect(written, command).toContain(tail);
        expect(written, command).not.toMatch(forbidden);
        expect(written.replaceAll(isTerminal ? ownStyles : "", ""), command).not.toContain("\u001b");
      }
    }),
    { numRuns: 6 },
  );
});

test("JSON and YAML are the data of the proxy, with escapes", async () => {
  await fc.assert(
    fc.asyncProperty(hostileText, async (text) => {
      const { address, dump, live, trace } = await startHostile(text);
      const ask = async (line: string) => (await proxyctl([...line.split(" "), "--address", address])).stdout;
      expect(JSON.parse(await ask("config dump"))).toEqual(JSON.parse(JSON.stringify(dump)));
      expect(JSON.parse(await ask("limits top -o json"))).toEqual(JSON.parse(JSON.stringify(live)));
      expect(parseYaml(await ask("limits top -o yaml"))).toEqual(JSON.parse(JSON.stringify(live)));
      const events = (await ask("trace --raw")).trim().split("\n");
      expect(events.map((line) => JSON.parse(line) as unknown)).toEqual(JSON.parse(JSON.stringify(trace)));
    }),
    { numRuns: 10 },
  );
});

test("no name of a file and no text of a manifest steers the terminal", () => {
  const folder = mkdtempSync(join(tmpdir(), "proxyctl-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  let files = 0;
  return fc.assert(
    fc.asyncProperty(hostileText, async (text) => {
      const file = join(folder, `${files++}${text.replaceAll("\u0000", "").replaceAll("/", "")}.yaml`);
      const metadata = { name: `web${text}`, namespace: text };
      const gateway = { apiVersion: "gateway.networking.k8s.io/v1", kind: "Gateway", metadata, spec: { [text]: text } };
      writeFileSync(file, JSON.stringify(gateway));
      for (const command of ["validate", "limits test --rate 1/s"]) {
        const { stdout, stderr } = await proxyctl([...command.split(" "), "-f", file]);
        expect(stdout + stderr, command).toContain(tail);
        expect(stdout + stderr, command).not.toMatch(forbidden);
        expect(stdout + stderr, command).not.toContain("\u001b");
      }
      const wrong = await proxyctl(["config", text, "--file", file]);
      expect(wrong.stdout + wrong.stderr).not.toMatch(/[\u001b\u009b\u202e]/);
    }),
    { numRuns: 20 },
  );
});

test("a profile, which is no text, is not written to a terminal", async () => {
  const stderr = new Captured();
  const world = { stdout: new TerminalCapture(), stderr };
  const { exitCode } = await proxyctl(["profile", "heap", "-o", "-", "--address", "127.0.0.1:1"], world);
  expect(exitCode).toBe(64);
  expect(stderr.text).toContain("it is not text");
});
