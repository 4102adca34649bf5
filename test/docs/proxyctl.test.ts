/**
 * The commands of docs/proxyctl.md, run in the page's order against the quickstart as it stands. What they write must be
 * what the page shows: names, columns and words to the letter, with figures, times and ids as they come.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { startMockLlm } from "../../examples/mock-llm/src/mock-llm.ts";
import { Captured, proxyctl } from "../../proxyctl/src/testing/run.ts";
import { freePort, type ProxyProcess, startProxy } from "../support/proxy-process.ts";
import { repository } from "./markdown.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 120_000 });

interface Example {
  /** As typed, behind `proxyctl `. */
  readonly command: string;
  readonly output: string;
}

/** The blocks of the page that begin with a command; each of its commands, and what stands below it. */
async function readExamples(): Promise<readonly Example[]> {
  const text = await readFile(join(repository, "docs/proxyctl.md"), "utf8");
  return [...text.matchAll(/^```\n(\$ proxyctl [^]*?)^```$/gm)].flatMap(([, block = ""]) =>
    block
      .split(/^\$ proxyctl /m)
      .slice(1)
      .map((part) => {
        const end = part.indexOf("\n");
        return { command: part.slice(0, end), output: part.slice(end + 1) };
      }),
  );
}

/** What the page's commands exit with where it is not 0. */
const exitCodes: Readonly<Record<string, number>> = {
  "limits test -f examples/quickstart/limits.yaml --rate 20/m --duration 2m --fail-on-deny": 1,
  "validate -f policy.yaml": 1,
};

/** The manifests of the quickstart on free ports. */
async function startQuickstart(): Promise<{ readonly proxy: ProxyProcess; readonly port: number }> {
  const mock = await startMockLlm({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => mock.close());
  const [port, llmPort] = [await freePort(), mock.port];
  const folder = join(repository, "examples/quickstart");
  const names = (await readdir(folder)).filter((name) => name.endsWith(".yaml"));
  const files = await Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(folder, name), "utf8");
      return [name, text.replace("port: 8080", `port: ${port}`).replace("port: 8089", `port: ${llmPort}`)] as const;
    }),
  );
  // Of one worker the log is in order: the line of the last request is the last.
  const proxy = await startProxy(Object.fromEntries(files), ["--workers", "1"]);
  return { proxy, port };
}

/** Sends until some are refused, for want of tokens; resolves with the id of the last when the log tells of it. */
async function exhaust(proxy: ProxyProcess, url: string): Promise<string> {
  const body = JSON.stringify({ model: "mock", messages: [{ role: "user", content: "Why?" }] });
  for (let refused = 0, sent = 0; sent < 30; sent++) {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
    await answer.text();
    if (answer.status !== 429 || ++refused < 5) continue;
    const id = answer.headers.get("x-request-id") ?? "";
    await proxy.logged((line) => line["requestId"] === id);
    return id;
  }
  throw new Error("thirty requests have not used up the quickstart's budget");
}

/** Words of a command line; single quotes hold some together. */
function wordsOf(command: string): readonly string[] {
  return [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");
}

/** Figures, ids and the widths of columns are of the moment. */
function withoutFigures(text: string): string {
  return text
    .replaceAll(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b/g, "ID")
    .replaceAll(/\d+(\.\d+)?/g, "N")
    .replaceAll(/ +/g, " ")
    .trim();
}

/** Files of the page are in a folder of the test's own. */
const pageFiles = ["dump.json", "access.jsonl", "policy.yaml", "cpu.pb.gz", "heap.pb.gz"];

async function runAsShown(
  command: string,
  world: World,
): Promise<{ readonly exitCode: number; readonly output: string }> {
  const { directory, admin, port } = world;
  const inFolder = (text: string): string => (pageFiles.includes(text) ? join(directory, text) : text);
  const [line = "", redirected] = command.split(" > ");
  const words = wordsOf(line).map((word) => inFolder(word.replaceAll("8080", String(port))));
  const end = words.includes("--") ? words.indexOf("--") : words.length;
  const isAsked = !/^(limits test|validate|completion)|--file/.test(line);
  const reach = isAsked ? ["--address", admin] : [];
  // Both streams of a terminal are one.
  const terminal = new Captured();
  const file = new Captured();
  const { exitCode } = await proxyctl([...words.slice(0, end), ...reach, ...words.slice(end)], {
    stdout: redirected === undefined ? terminal : file,
    stderr: terminal,
  });
  if (redirected !== undefined) await writeFile(join(directory, basename(redirected)), file.bytes);
  return { exitCode, output: terminal.text.replaceAll(`${directory}/`, "") };
}

interface World {
  /** Where the page's files are. */
  readonly directory: string;
  readonly admin: string;
  readonly port: number;
}

test("every command of the page does what the page shows", async () => {
  const { proxy, port } = await startQuickstart();
  const directory = await mkdtemp(join(tmpdir(), "proxyctl-page-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  const limits = await readFile(join(repository, "examples/quickstart/limits.yaml"), "utf8");
  await writeFile(join(directory, "policy.yaml"), limits.replace("unit: Minutes", "unit: Minute"));
  const world = { directory, admin: proxy.admin.slice("http://".length), port };
  const examples = await readExamples();
  expect(examples.length).toBeGreaterThan(15);
  for (const { command, output } of examples) {
    const refused = command.startsWith("limits explain ")
      ? await exhaust(proxy, `http://127.0.0.1:${port}`)
      : undefined;
    if (command.includes("--log")) await writeFile(join(directory, "access.jsonl"), logOf(proxy));
    const typed = refused === undefined ? command : `limits explain ${refused}`;
    const run = await runAsShown(typed, world);
    const shown = run.output.replaceAll(proxy.directory, "examples/quickstart");
    expect({ command, exitCode: run.exitCode }).toEqual({ command, exitCode: exitCodes[command] ?? 0 });
    // Some are shown without what they write.
    if (output.trim() !== "") expect(withoutFigures(shown), command).toBe(withoutFigures(output));
  }
});

function logOf({ log }: ProxyProcess): string {
  return log.map((line) => `${JSON.stringify(line)}\n`).join("");
}
