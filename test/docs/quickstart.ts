/** The quickstart as pages show it, and the output of commands in a form that can be compared. */
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { onTestFinished } from "vitest";
import { startMockLlm } from "../../examples/mock-llm/src/mock-llm.ts";
import { Captured, proxyctl } from "../../proxyctl/src/testing/run.ts";
import { freePort } from "../support/free-port.ts";
import { type ProxyProcess, startProxy } from "../support/proxy-process.ts";
import { repository } from "./markdown.ts";

/** A running quickstart for one test. */
export interface Quickstart {
  readonly proxy: ProxyProcess;
  /** The port of its listener. */
  readonly port: number;
  /** The folder of the files that pages name. */
  readonly directory: string;
}

/** The manifests of the quickstart on free ports. */
export async function startQuickstart(): Promise<Quickstart> {
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
  // The log of one worker is in order: the line of the last request is the last.
  const proxy = await startProxy(Object.fromEntries(files), ["--workers", "1"]);
  const directory = await mkdtemp(join(tmpdir(), "page-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  return { proxy, port, directory };
}

/** Sends requests until some are denied by the token limit; resolves with the id of the last when it is logged. */
export async function exhaust({ proxy, port }: Quickstart): Promise<string> {
  const body = JSON.stringify({ model: "mock", messages: [{ role: "user", content: "Why?" }] });
  for (let denied = 0, sent = 0; sent < 30; sent++) {
    const headers = { "content-type": "application/json" };
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, { method: "POST", headers, body });
    await response.text();
    if (response.status !== 429 || ++denied < 5) continue;
    const id = response.headers.get("x-request-id") ?? "";
    await proxy.logged((line) => line["requestId"] === id);
    return id;
  }
  throw new Error("thirty requests have not used up the quickstart's limit");
}

/** Words of a command line; single quotes keep several together. */
function wordsOf(command: string): readonly string[] {
  return [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");
}

/** Replaces dates, numbers, ids and the widths of columns, which differ between runs. */
export function withoutFigures(text: string): string {
  return text
    .replaceAll(/[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} GMT/g, "DATE")
    .replaceAll(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b/g, "ID")
    .replaceAll(/\d+(\.\d+)?/g, "N")
    .replaceAll(/ +/g, " ")
    .trim();
}

/** Files of the pages that are in its folder. */
const pageFiles = ["dump.json", "access.jsonl", "policy.yaml", "ingress.yaml", "cpu.pb.gz", "heap.pb.gz"];

/** Runs the text after `proxyctl ` of a page, against the quickstart. */
export async function runProxyctl(
  command: string,
  { proxy, port, directory }: Quickstart,
): Promise<{ readonly exitCode: number; readonly output: string }> {
  const inFolder = (text: string): string => (pageFiles.includes(text) ? join(directory, text) : text);
  const [line = "", redirected] = command.split(" > ");
  const words = wordsOf(line).map((word) => inFolder(word.replaceAll("8080", String(port))));
  const end = words.includes("--") ? words.indexOf("--") : words.length;
  const usesProxy = !/^(limits test|validate|convert|completion)|--file/.test(line);
  const reach = usesProxy ? ["--address", proxy.admin.slice("http://".length)] : [];
  // A terminal shows both streams together.
  const terminal = new Captured();
  const file = new Captured();
  const { exitCode } = await proxyctl([...words.slice(0, end), ...reach, ...words.slice(end)], {
    stdout: redirected === undefined ? terminal : file,
    stderr: terminal,
  });
  if (redirected !== undefined) await writeFile(join(directory, basename(redirected)), file.bytes);
  const output = terminal.text.replaceAll(`${directory}/`, "").replaceAll(proxy.directory, "examples/quickstart");
  return { exitCode, output };
}
