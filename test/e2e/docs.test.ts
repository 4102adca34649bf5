/**
 * Runs the pages that tell what to type in the cluster: every block of commands, in their order, and looks in the output for
 * the block of text that follows it, line by line.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { attempt, context, kubectl } from "./support/cluster.ts";

const repository = join(import.meta.dirname, "../..");

/** Ends the cluster that the other tests still need; the run itself ends with it. */
const ending = "scripts/kind-down.sh";

interface Block {
  readonly commands: string;
  /** Lines that the output has to have in this order; `…` stands for anything. Empty: the commands have to succeed. */
  readonly shown: readonly string[];
}

/** The blocks of a page from a heading on, to the next of its level. */
function blocksOf(page: string, heading?: string): readonly Block[] {
  const text = readFileSync(join(repository, page), "utf8");
  const section =
    heading === undefined ? text : (text.split(/^(?=## )/m).find((each) => each.startsWith(`## ${heading}\n`)) ?? "");
  const found = [...section.matchAll(/^```sh\n([^]*?)^```\n(?:\n```text\n([^]*?)^```$)?/gm)];
  return found.map(([, commands = "", shown = ""]) => ({
    commands: commands.trim(),
    shown: shown.split("\n").filter((line) => line !== ""),
  }));
}

function pattern(line: string): RegExp {
  const literal = line.split("…").map((part) =>
    part
      .trim()
      .replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&")
      .replaceAll(/\s+/g, "\\s+"),
  );
  return new RegExp(literal.join(".*"));
}

async function run({ commands, shown }: Block): Promise<void> {
  // kind has made its context the current one; another may have become it since.
  await kubectl(["config", "use-context", context]);
  const { code, stdout, stderr } = await attempt("bash", ["-euo", "pipefail", "-c", commands]);
  expect(code, stderr).toBe(0);
  const lines = stdout.split("\n");
  let from = 0;
  for (const each of shown) {
    const at = lines.findIndex((line, index) => index >= from && pattern(each).test(line));
    expect(at, `no line like ${each} after line ${from} of:\n${stdout}`).toBeGreaterThanOrEqual(0);
    from = at + 1;
  }
}

describe("docs/quickstart-kind.md", () => {
  const blocks = blocksOf("docs/quickstart-kind.md");

  afterAll(async () => {
    // It edits the examples.
    await kubectl(["apply", "-f", join(repository, "examples/kind/chat.yaml")]);
  });

  test("ends by removing the cluster", () => {
    expect(blocks.at(-1)?.commands).toBe(ending);
  });

  test.each(blocks.slice(0, -1))("works: $commands", async (block) => {
    await run(block);
  });
});

describe("README.md", () => {
  const blocks = blocksOf("README.md", "In a cluster");

  test("tells how to get a cluster", () => {
    expect(blocks[0]?.commands).toMatch(/^scripts\/kind-up\.sh$/m);
  });

  test.each(blocks)("works: $commands", async (block) => {
    await run(block);
  });
});
