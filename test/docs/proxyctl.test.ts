/**
 * The commands of docs/proxyctl.md, run in the page's order against the quickstart. Their output must be the text of
 * the page: names, columns and words exactly, with any numbers, times and ids.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import type { ProxyProcess } from "../support/proxy-process.ts";
import { repository } from "./markdown.ts";
import { exhaust, runProxyctl, startQuickstart, withoutFigures } from "./quickstart.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 120_000 });

interface Example {
  /** As typed, after `proxyctl `. */
  readonly command: string;
  readonly output: string;
}

/** The blocks of the page that begin with a command; each of its commands, and the text below it. */
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

/** The exit codes of the page's commands that are not 0. */
const exitCodes: Readonly<Record<string, number>> = {
  "limits test -f examples/quickstart/limits.yaml --rate 20/m --duration 2m --fail-on-deny": 1,
  "validate -f policy.yaml": 1,
};

const ingress = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: shop, annotations: { nginx.ingress.kubernetes.io/limit-rps: "5" } }
spec: { rules: [{ host: shop.example.com }] }
`;

test("every command has the output of the page", async () => {
  const quickstart = await startQuickstart();
  const { proxy, directory } = quickstart;
  const limits = await readFile(join(repository, "examples/quickstart/limits.yaml"), "utf8");
  await writeFile(join(directory, "ingress.yaml"), ingress);
  await writeFile(join(directory, "policy.yaml"), limits.replace("unit: Minutes", "unit: Minute"));
  const examples = await readExamples();
  expect(examples.length).toBeGreaterThan(15);
  for (const { command, output } of examples) {
    const denied = command.startsWith("limits explain ") ? await exhaust(quickstart) : undefined;
    if (command.includes("--log")) await writeFile(join(directory, "access.jsonl"), logOf(proxy));
    const typed = denied === undefined ? command : `limits explain ${denied}`;
    const run = await runProxyctl(typed, quickstart);
    expect({ command, exitCode: run.exitCode }).toEqual({ command, exitCode: exitCodes[command] ?? 0 });
    // Some commands are shown without their output.
    if (output.trim() !== "") expect(withoutFigures(run.output), command).toBe(withoutFigures(output));
  }
});

function logOf({ log }: ProxyProcess): string {
  return log.map((line) => `${JSON.stringify(line)}\n`).join("");
}
