/** The screens of proxyctl in a real terminal, as an operator sees and uses them. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startAdmin } from "../../proxyctl/src/testing/admin.ts";
import { chatTrace, streamOf } from "../../proxyctl/src/testing/trace-events.ts";
import { describeWith } from "../support/describe-with.ts";
import { openTerminal } from "../support/terminal.ts";

const main = join(import.meta.dirname, "../../proxyctl/src/main.ts");

/** The program starts from sources, on a machine with other load. */
const polling = { timeout: 15_000, interval: 100 };

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
    await expect.poll(() => terminal.screen().at(-1), polling).toContain("10 events, complete");
    const shown = (): string => terminal.screen().join("\n").replaceAll(file, "trace.jsonl");
    return { ...terminal, shown };
  }

  test.each([80, 120, 140])("shows the decisions and counters of limits in %i columns", async (columns) => {
    const { shown, press } = await openTrace(columns, 24);
    await expect(`${shown()}\n`).toMatchFileSnapshot(`testdata/trace-${columns}-last.txt`);
    press("g");
    await expect.poll(shown, polling).toContain("type: requestStarted");
    await expect(`${shown()}\n`).toMatchFileSnapshot(`testdata/trace-${columns}-first.txt`);
  });

  test("moves by arrow keys and vi keys, and scrolls the detail", async () => {
    const { shown, press } = await openTrace(80, 12);
    press("Up", "k");
    await expect.poll(shown, polling).toContain("type: backendCallResult");
    press("Down", "j");
    await expect.poll(shown, polling).toContain("type: requestFinished");
    press("Home");
    await expect.poll(shown, polling).toContain("type: requestStarted");
    press("NPage");
    await expect.poll(shown, polling).not.toContain("type: requestStarted");
    press("PPage");
    await expect.poll(shown, polling).toContain("type: requestStarted");
  });

  test("adapts to the size of the terminal", async () => {
    const { screen, resize } = await openTrace(80, 24);
    resize(120, 30);
    await expect.poll(() => screen().findLast((line) => line !== ""), polling).toContain("10 events, complete");
    await expect.poll(() => screen()[1]?.length, polling).toBe(120);
    expect(screen().findLastIndex((line) => line !== "")).toBe(29);
  });

  test.each([
    ["q", 0],
    ["C-c", 130],
    ["Escape", 0],
  ])("restores the screen on %s, with exit code %i", async (key, exitCode) => {
    const { screen, press } = await openTrace(80, 24);
    press(key);
    await expect.poll(() => screen().join("\n"), polling).toContain(`exit ${exitCode}\n`);
    expect(screen().join("\n")).not.toContain("│");
    expect(screen().join("")).toContain("ready>");
  });
});

describeWith(["tmux"], "a live trace", ({ tmux }) => {
  test("restores the screen when the proxy disconnects, and reports it there", async () => {
    const admin = await startAdmin({
      "GET /debug/trace": (_, response) => {
        response.write(`: ready\n\n${streamOf(chatTrace.slice(0, 2))}`);
        setTimeout(() => response.destroy(), 500);
      },
    });
    const command = `${process.execPath} ${main} trace --address ${admin.address}; echo "exit $?"`;
    const { screen } = openTerminal(tmux, command, { columns: 100, rows: 24 });
    await expect.poll(() => screen().join("\n"), polling).toContain("exit 2\n");
    expect(screen().join("\n")).toContain("error: ");
    expect(screen().join("\n")).not.toContain("│");
  });

  test.each([
    ["q", 0],
    ["C-c", 130],
  ])("ends by %s while it waits, with exit code %i", async (key, exitCode) => {
    const admin = await startAdmin({ "GET /debug/trace": (_, response) => void response.write(": ready\n\n") });
    const command = `${process.execPath} ${main} trace --address ${admin.address}; echo "exit $?"`;
    const { screen, press } = openTerminal(tmux, command, { columns: 80, rows: 24 });
    await expect.poll(() => screen().join("\n"), polling).toContain("waiting for the request");
    press(key);
    await expect.poll(() => screen().join("\n"), polling).toContain(`exit ${exitCode}\n`);
  });
});

describeWith(["tmux"], "limits top on a terminal", ({ tmux }) => {
  const counter = {
    policy: "default/limits-of-the-chat-completions",
    entry: 0,
    target: "HTTPRoute/default/chat-completions",
    source: "local",
    counts: "requests",
    unit: "Minutes",
    mode: "Enforce",
    limit: 100,
    resetSeconds: 30,
  };
  const service = {
    service: "Service/default/ratelimit:8081",
    breaker: "open",
    openOn: 2,
    workers: 2,
    since: "2026-11-21T09:58:12.402Z",
    lastError: { message: "connect ECONNREFUSED", at: "2026-11-21T09:59:59.730Z" },
    failuresInARow: 6,
    chargesBuffered: 4,
    denialsCached: 12,
    limitsLearned: 3,
  };
  const limits = { at: "2026-11-21T10:00:00.000Z", countersLeftOut: 0, services: [], learned: [] };

  function openTop(address: string, columns: number) {
    const command = `${process.execPath} ${main} limits top --address ${address}; echo "exit $?"`;
    return openTerminal(tmux, command, { columns, rows: 24 });
  }

  test("is redrawn with the current counters until q; an unavailable proxy does not end it", async () => {
    let used = 0;
    let isAway = false;
    const admin = await startAdmin({
      "GET /limits": (_, response) => {
        used += 1;
        if (isAway) response.destroy();
        else response.end(JSON.stringify({ ...limits, counters: [{ ...counter, used, remaining: 100 - used }] }));
      },
    });
    const { screen, press } = openTop(admin.address, 120);
    await expect.poll(() => screen().join("\n"), polling).toMatch(/requests\/minute +100 +2 +98 +30s/);
    isAway = true;
    await expect
      .poll(() => screen()[1], polling)
      .toMatch(/^\d s old: request \/limits from 127\.0\.0\.1:\d+: socket hang up$/);
    expect(screen().join("\n")).toMatch(/requests\/minute +100/);
    isAway = false;
    await expect.poll(() => screen()[1], polling).toBe("");
    press("q");
    await expect.poll(() => screen().join("\n"), polling).toContain("exit 0\n");
  });

  test("shows counters and services in 80 columns and 24 rows", async () => {
    const counters = Array.from({ length: 100 }, (_, at) => {
      return { ...counter, key: { text: `user-${at}`, isSecret: false }, used: 100 - at, remaining: at };
    });
    const admin = await startAdmin({
      "GET /limits": { ...limits, counters, countersLeftOut: 1_500, services: [service] },
    });
    const { screen } = openTop(admin.address, 80);
    await expect.poll(() => screen().join("\n"), polling).toContain("SERVICE");
    const shown = screen().join("\n").replaceAll(admin.address, "ADDRESS");
    await expect(`${shown}\n`).toMatchFileSnapshot("testdata/limits-top-80.txt");
  });

  test.each([
    ["q", 0],
    ["C-c", 130],
  ])("ends at once by %s without a response, with exit code %i", async (key, exitCode) => {
    let calls = 0;
    const admin = await startAdmin({
      "GET /limits": (_, response) => {
        calls += 1;
        if (calls === 1) response.end(JSON.stringify({ ...limits, counters: [] }));
      },
    });
    const { screen, press } = openTop(admin.address, 80);
    await expect.poll(() => calls, polling).toBe(2);
    press(key);
    await expect.poll(() => screen().join("\n"), polling).toContain(`exit ${exitCode}\n`);
  });
});
