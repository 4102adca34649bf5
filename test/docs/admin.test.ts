/**
 * The commands of docs/admin.md, run in the page's order against the quickstart. Their output must be the text of the
 * page, as in proxyctl.test.ts; a line `…` stands for any lines that the page leaves out.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { promisify } from "node:util";
import { limitsSchema } from "@gatewayproxy/admin-api/limits";
import { expect, onTestFinished, test, vi } from "vitest";
import { describeWith } from "../support/describe-with.ts";
import { repository } from "./markdown.ts";
import { exhaust, type Quickstart, runProxyctl, startQuickstart, withoutFigures } from "./quickstart.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 120_000 });

const run = promisify(execFile);

/** A block of the page: the commands one after the other, and their whole output. */
interface Example {
  readonly commands: readonly string[];
  readonly output: string;
}

async function readExamples(): Promise<readonly Example[]> {
  const text = await readFile(join(repository, "docs/admin.md"), "utf8");
  return [...text.matchAll(/^```console\n([^]*?)^```$/gm)].map(([, block = ""]) => {
    const lines = block.split("\n");
    const isCommand = (line: string): boolean => line.startsWith("$ ");
    return {
      commands: lines.filter(isCommand).map((line) => line.slice(2)),
      output: lines.filter((line) => !isCommand(line)).join("\n"),
    };
  });
}

/** Runs a block; waits for the first output of background commands (`&`), and for their end. */
async function runAsShown(commands: readonly string[], quickstart: Quickstart): Promise<string> {
  // In the order in which it appears on a terminal.
  const output: string[] = [];
  const background: Promise<unknown>[] = [];
  for (const command of commands) {
    if (command.startsWith("proxyctl ")) {
      const shown = await runProxyctl(command.slice("proxyctl ".length), quickstart);
      expect({ command, exitCode: shown.exitCode }).toEqual({ command, exitCode: 0 });
      output.push(shown.output);
      continue;
    }
    const typed = await placed(command, quickstart);
    if (!command.endsWith(" &")) {
      output.push((await run("sh", ["-c", typed], { cwd: quickstart.directory })).stdout);
      continue;
    }
    const stdout = startInBackground(typed.slice(0, -2), quickstart);
    stdout.on("data", (chunk: Buffer) => void output.push(chunk.toString()));
    background.push(once(stdout, "end"));
    await once(stdout, "data");
  }
  await Promise.all(background);
  return output.join("").replaceAll("\r\n", "\n").replaceAll(quickstart.proxy.directory, "examples/quickstart");
}

function startInBackground(typed: string, { directory }: Quickstart): Readable {
  const child = spawn("sh", ["-c", typed], { cwd: directory, stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child.stdout;
}

/** With the current ports, and the id of a request that was denied. */
async function placed(command: string, quickstart: Quickstart): Promise<string> {
  const { proxy, port } = quickstart;
  const here = command.replaceAll(":15000", `:${new URL(proxy.admin).port}`).replaceAll(":8080", `:${port}`);
  return here.includes("decisions?id=") ? here.replace(/id=[\w-]+/, `id=${await exhaust(quickstart)}`) : here;
}

/** The number of comments depends on the time that passes. */
function withoutKeepAlives(text: string): string {
  return text.replaceAll(": keepalive\n\n", "");
}

/** @param shown a line `…` of it stands for any lines. */
function expectShown(actual: string, shown: string, what: string): void {
  const [found, expected] = [actual, shown].map((text) => withoutFigures(withoutKeepAlives(text)));
  const parts = (expected ?? "").split(/^ *…(?:\n|$)/m).map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  if (!new RegExp(`^${parts.join("[^]*?")}$`).test(found ?? "")) expect(found, what).toBe(expected);
}

test("the page's rate limit service has the fields of the schema", async () => {
  const text = await readFile(join(repository, "docs/admin.md"), "utf8");
  const [, example = ""] = /^```json\n([^]*?)^```$/m.exec(text) ?? [];
  expect(() => limitsSchema.shape.services.element.strict().parse(JSON.parse(example))).not.toThrow();
});

describeWith(["curl"], "the page of the admin server", () => {
  test("every command has the output of the page, and the last ends the proxy", async () => {
    const quickstart = await startQuickstart();
    const examples = await readExamples();
    expect(examples.length).toBeGreaterThan(12);
    for (const { commands, output } of examples) {
      expectShown(await runAsShown(commands, quickstart), output, commands.join("\n"));
    }
    expect(await quickstart.proxy.exited).toBe(0);
  });
});
