import { readFileSync } from "node:fs";
import { PassThrough } from "node:stream";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { withSection } from "@gatewayproxy/runtime/testing/doc-section";
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { startMute } from "../testing/admin.ts";
import { Captured, proxyctl } from "../testing/run.ts";
import { leavesOf, renderHelpPage } from "./help-page.ts";
import { createProgram, ioOf, runProxyctl } from "./program.ts";

const page = new URL("../../../docs/proxyctl.md", import.meta.url);

function world() {
  const [stdout, stderr, stdin] = [new Captured(), new Captured(), new PassThrough()];
  return { stdin, stdout, stderr, env: {}, clock: systemClock, signal: new AbortController().signal };
}

const newProgram = (): Command => createProgram(ioOf(world(), () => undefined));
const program = newProgram();
const commands = leavesOf(program, []).map(({ path }) => path.join(" "));

describe("docs/proxyctl.md", () => {
  test("holds the help of every command (`npx vitest run proxyctl/src/app --update` writes it)", async () => {
    const text = readFileSync(page, "utf8");
    await expect(withSection(text, "commands", renderHelpPage(program))).toMatchFileSnapshot(page.pathname);
  });

  test("shows each command at work, and none that does not exist", () => {
    const text = readFileSync(page, "utf8").split("<!-- begin commands -->")[0] ?? "";
    const shown = [...text.matchAll(/^\$ proxyctl (.*)$/gm)].map(([, line = ""]) => line);
    for (const command of commands) {
      expect(
        shown.some((line) => `${line} `.startsWith(`${command} `)),
        command,
      ).toBe(true);
    }
    for (const line of shown) {
      expect(
        commands.some((command) => `${line} `.startsWith(`${command} `)),
        line,
      ).toBe(true);
    }
  });

  test("names no flag that no command has", () => {
    const text = readFileSync(page, "utf8");
    const ours = leavesOf(program, []).flatMap(({ command }) => command.options.flatMap(({ long }) => long ?? []));
    const known = new Set([
      ...ours,
      "--help",
      "--version",
      "--json",
      "--cacert",
      "--silent",
      "--prefix",
      "--admin-address",
    ]);
    const named = [...text.matchAll(/(?<![\w-])--[a-z][\w-]+/g)].map(([flag]) => flag);
    expect([...new Set(named)].filter((flag) => !known.has(flag))).toEqual([]);
  });
});

describe("the command line", () => {
  test("shows its help, and exits with 0", async () => {
    const run = await proxyctl(["--help"]);
    expect(run).toMatchObject({ exitCode: 0, stderr: "" });
    await expect(run.stdout).toMatchFileSnapshot("testdata/help.txt");
  });

  test("ends with 64 and the help when no command is given", async () => {
    const run = await proxyctl([]);
    expect(run).toMatchObject({ exitCode: 64, stdout: "" });
    expect(run.stderr).toContain("Usage: proxyctl");
  });

  test("ends with 130 when it is stopped", async () => {
    const stop = new AbortController();
    stop.abort();
    const run = runProxyctl(["trace", "--address", "127.0.0.1:1"], { ...world(), signal: stop.signal });
    expect(await run).toBe(130);
  });

  test.each(["config routes", "doctor", "limits top", "logging", "version", "limits explain id", "limits reset p"])(
    "ends with 130 when it is interrupted without a response: %s",
    async (words) => {
      const stop = new AbortController();
      const argv = [...words.split(" "), "--address", await startMute()];
      const run = runProxyctl(argv, { ...world(), signal: stop.signal });
      stop.abort();
      expect(await run).toBe(130);
    },
  );
});

describe("the help of every command", () => {
  /** Commands with others below them too, but for commander's own `help`. */
  function everyCommand(command: Command): readonly Command[] {
    return [command, ...command.commands.filter((each) => !each.name().startsWith("__")).flatMap(everyCommand)];
  }

  test.each(everyCommand(program).map((command) => [nameOf(command), command] as const))(
    "has an example that it takes: %s",
    (name, command) => {
      const shown = command.helpInformation().split("\nExamples:\n")[1]?.trimEnd().split("\n") ?? [];
      expect(shown.length).toBeGreaterThan(0);
      for (const line of shown) {
        const typed = /\bproxyctl (.*?)(?: -- .*|\)|[|>].*)?$/.exec(line)?.[1]?.trim() ?? "";
        expect(` ${typed} `.startsWith(name === "" ? " " : ` ${name} `), line).toBe(true);
        const words = [...typed.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");
        const leaf = everyCommand(newProgram())
          .toSorted((a, b) => nameOf(b).length - nameOf(a).length)
          .find((each) => `${typed} `.startsWith(`${nameOf(each)} `));
        const rest = words.slice(nameOf(leaf ?? program).split(" ").length);
        expect({ line, unknown: leaf?.parseOptions(rest).unknown }).toEqual({ line, unknown: [] });
      }
    },
  );

  function nameOf(command: Command): string {
    return command.parent === null ? "" : `${nameOf(command.parent)} ${command.name()}`.trim();
  }
});
