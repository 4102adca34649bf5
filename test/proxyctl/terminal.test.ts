/** The screens of proxyctl in a real terminal, as an operator sees and steers them. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startAdmin } from "../../proxyctl/src/testing/admin.ts";
import { chatTrace, streamOf } from "../../proxyctl/src/testing/trace-events.ts";
import { describeWith } from "../support/describe-with.ts";
import { openTerminal } from "../support/terminal.ts";

const main = join(import.meta.dirname, "../../proxyctl/src/main.ts");

/** A program under test starts from sources, on a machine that does other things too. */
const patience = { timeout: 15_000, interval: 100 };

function savedTrace(): string {
  const directory = mkdtempSync(join(tmpdir(), "proxyctl-trace-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const file = join(directory, "trace.jsonl");
  writeFileSync(file, chatTrace.map((event) => `${JSON.stringify(event)}\n`).join(""));
  return file;
}

describeWith(["tmux"], "the trace on a terminal", ({ tmux }) => {
  /** Shows the saved trace and waits until all of it is on the screen. */
  async function openTrace(columns: number, rows: number) {
    const file = savedTrace();
    const terminal = openTerminal(tmux, `${process.execPath} ${main} trace --file ${file}; echo "exit $?"`, {
      columns,
      rows,
    });
    await expect.poll(() => terminal.screen().at(-1), patience).toContain("10 events, complete");
    const shown = (): string => terminal.screen().join("\n").replaceAll(file, "trace.jsonl");
    return { ...terminal, shown };
  }

  test.each([80, 120])("shows list and detail side by side in %i columns", async (columns) => {
    const { shown, press } = await openTrace(columns, 24);
    await expect(`${shown()}\n`).toMatchFileSnapshot(`testdata/trace-${columns}-last.txt`);
    press("g");
    await expect.poll(shown, patience).toContain("type: requestStarted");
    await expect(`${shown()}\n`).toMatchFileSnapshot(`testdata/trace-${columns}-first.txt`);
  });

  test("moves by arrows and by vi's letters, and scrolls the detail", async () => {
    const { shown, press } = await openTrace(80, 12);
    press("Up", "k");
    await expect.poll(shown, patience).toContain("type: backendCallResult");
    press("Down", "j");
    await expect.poll(shown, patience).toContain("type: requestFinished");
    press("Home");
    await expect.poll(shown, patience).toContain("type: requestStarted");
    press("NPage");
    await expect.poll(shown, patience).not.toContain("type: requestStarted");
    press("PPage");
    await expect.poll(shown, patience).toContain("type: requestStarted");
  });

  test("follows the size of the terminal", async () => {
    const { screen, resize } = await openTrace(80, 24);
    resize(120, 30);
    await expect.poll(() => screen().findLast((line) => line !== ""), patience).toContain("10 events, complete");
    await expect.poll(() => screen()[1]?.length, patience).toBe(120);
    expect(screen().findLastIndex((line) => line !== "")).toBe(29);
  });

  test.each(["q", "C-c", "Escape"])("gives the screen back on %s, with exit code 0", async (key) => {
    const { screen, press } = await openTrace(80, 24);
    press(key);
    await expect.poll(() => screen().join("\n"), patience).toContain("exit 0\n");
    expect(screen().join("\n")).not.toContain("│");
    expect(screen().join("")).toContain("ready>");
  });
});

describeWith(["tmux"], "a live trace", ({ tmux }) => {
  test("gives the screen back when the proxy breaks off, and says so on it", async () => {
    const admin = await startAdmin({
      "GET /debug/trace": (_, response) => {
        response.write(`: ready\n\n${streamOf(chatTrace.slice(0, 2))}`);
        setTimeout(() => response.destroy(), 500);
      },
    });
    const command = `${process.execPath} ${main} trace --address ${admin.address}; echo "exit $?"`;
    const { screen } = openTerminal(tmux, command, { columns: 100, rows: 24 });
    await expect.poll(() => screen().join("\n"), patience).toContain("exit 2\n");
    expect(screen().join("\n")).toContain("error: ");
    expect(screen().join("\n")).not.toContain("│");
  });

  test("is given up by q while it waits", async () => {
    const admin = await startAdmin({ "GET /debug/trace": (_, response) => void response.write(": ready\n\n") });
    const command = `${process.execPath} ${main} trace --address ${admin.address}; echo "exit $?"`;
    const { screen, press } = openTerminal(tmux, command, { columns: 80, rows: 24 });
    await expect.poll(() => screen().join("\n"), patience).toContain("waiting for the request");
    press("q");
    await expect.poll(() => screen().join("\n"), patience).toContain("exit 0\n");
  });
});

describeWith(["tmux"], "limits top on a terminal", ({ tmux }) => {
  test("is redrawn with what counts now, until q", async () => {
    let used = 0;
    const admin = await startAdmin({
      "GET /limits": (_, response) => {
        used += 1;
        const counter = {
          policy: "default/p",
          entry: 0,
          target: "HTTPRoute/default/r",
          source: "local",
          counts: "requests",
          unit: "Minutes",
          mode: "Enforce",
          limit: 100,
          used,
          remaining: 100 - used,
          resetSeconds: 30,
        };
        response.end(
          JSON.stringify({
            at: "2026-11-21T10:00:00.000Z",
            counters: [counter],
            countersLeftOut: 0,
            services: [],
            learned: [],
          }),
        );
      },
    });
    const command = `${process.execPath} ${main} limits top --address ${admin.address}; echo "exit $?"`;
    const { screen, press } = openTerminal(tmux, command, { columns: 120, rows: 24 });
    await expect.poll(() => screen().join("\n"), patience).toMatch(/requests\/minute +100 +2 +98 +30s/);
    press("q");
    await expect.poll(() => screen().join("\n"), patience).toContain("exit 0\n");
  });
});
