import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { describeWith } from "../support/describe-with.ts";
import { openTerminal, type TestTerminal } from "../support/terminal.ts";
import { examplePort, sendMany } from "./support/client.ts";
import { attempt, context, eventually } from "./support/cluster.ts";

const program = join(import.meta.dirname, "../../proxyctl/src/main.ts");

/** Runs proxyctl on the Gateway of examples/kind; resolves with its standard output. */
async function proxyctl(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await attempt(process.execPath, [program, ...args]);
  expect(code, stderr).toBe(0);
  return stdout;
}

const onCluster = ["gateway/quickstart", "-n", "default", "--context", context] as const;

/** Makes requests, so that counters exist, and calls the rate limit service, which closes an open breaker. */
async function send(): Promise<void> {
  const headers = { "x-user": `proxyctl-${Date.now()}` };
  await sendMany(8, { path: "/team/v1/models", port: examplePort, headers });
  await sendMany(4, { path: "/v1/models", port: examplePort });
}

beforeAll(send);

describe("proxyctl in a cluster", () => {
  test("shows the whole configuration of the proxies of a Gateway", async () => {
    const all: unknown = parse(await proxyctl("config", "all", ...onCluster, "-o", "yaml"));
    expect(all).toMatchObject({
      proxy: { mode: "kubernetes" },
      listeners: [{ name: "default/quickstart/http" }],
      routes: [{ name: "chat" }, { name: "team" }],
      policies: [
        { name: "chat-limits", targets: [{ target: "HTTPRoute/default/chat", attached: true }] },
        { name: "team-limits", targets: [{ target: "HTTPRoute/default/team", attached: true }] },
      ],
    });
  });

  test("lists backends and Services with their endpoints", async () => {
    const [head = "", ...rows] = (await proxyctl("config", "backends", ...onCluster)).trim().split("\n");
    expect(head.split(/\s+/)).toEqual(["TYPE", "NAME", "NAMESPACE", "ENDPOINT", "HEALTH", "REQUESTS", "LATENCY"]);
    const columns = rows.map((row) => row.split(/\s+/).slice(0, 3).join(" "));
    expect(columns).toEqual([
      "Backend llm default",
      "Service gateway-proxy-ratelimit-service gateway-proxy-system",
      "Service gateway-proxy-ratelimit-service gateway-proxy-system",
    ]);
  });

  test("follows a request that it sends, and shows the limits that apply", async () => {
    const output = await proxyctl(
      "trace",
      ...onCluster,
      "--port",
      "8080",
      "--raw",
      "--",
      "http://example/team/v1/models",
    );
    const events = output
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { readonly message: { readonly type: string } });
    const types = events.map(({ message }) => message.type);
    expect(types[0]).toBe("requestStarted");
    expect(types.at(-1)).toBe("requestFinished");
    expect(types).toContain("routeSelection");
    expect(types).toContain("policy");
  });

  test("examines a proxy and its dependencies", async () => {
    const stdout = await eventually("the rate limit service responds", async () => {
      await send();
      const outcome = await attempt(process.execPath, [program, "doctor", ...onCluster]);
      return /^ok +rate limit services/m.test(outcome.stdout) ? outcome.stdout : undefined;
    });
    expect(stdout).toMatch(/^ok +proxy pods +2 ready/m);
    expect(stdout).toMatch(/^ok +policies +2, all attached$/m);
  });

  test("shows the counters with the least remaining", async () => {
    const stdout = await eventually("counters are shown, whose windows may end at any moment", async () => {
      await send();
      const top = await proxyctl("limits", "top", ...onCluster);
      return /^POLICY +TARGET/m.test(top) ? top : undefined;
    });
    expect(stdout).toMatch(/^POLICY +TARGET +KEY +COUNTS +LIMIT +USED +REMAINING/m);
  });

  test("changes the log level of a running proxy and back", async () => {
    expect(await proxyctl("logging", ...onCluster, "debug")).toBe("debug\n");
    expect(await proxyctl("logging", ...onCluster)).toBe("debug\n");
    expect(await proxyctl("logging", ...onCluster, "info")).toBe("info\n");
  });
});

/** The program that draws the screens starts from sources and connects to a pod. */
const polling = { timeout: 30_000, interval: 100 };

describeWith(["tmux"], "proxyctl on a terminal, in a cluster", ({ tmux }) => {
  function open(...args: readonly string[]): TestTerminal & { readonly shown: () => string } {
    const command = [process.execPath, program, ...args].join(" ");
    const terminal = openTerminal(tmux, `${command}; echo "exit $?"`, { columns: 180, rows: 24 });
    return { ...terminal, shown: () => terminal.screen().join("\n") };
  }

  test("shows the trace of a request that it sends, event by event, until q", async () => {
    const url = "http://example/team/v1/models";
    const { shown, press } = open("trace", ...onCluster, "--port", "8080", "--", "-H", "'x-user: trace'", url);
    await expect.poll(shown, polling).toMatch(/> .* Finished +200/);
    // One line for each step, from the request to its end.
    const steps = [
      "Request +GET",
      "Route +default/team/0",
      "Policies +default/team-limits",
      "Global +",
      "Response +200",
    ];
    for (const step of steps) expect(shown()).toMatch(new RegExp(`ms ${step}`));
    press("g");
    await expect.poll(shown, polling).toContain("│ type: requestStarted");
    press("q");
    await expect.poll(shown, polling).toContain("exit 0\n");
  });

  test("redraws the counters of all proxies of a Gateway, until q", async () => {
    const { shown, press } = open("limits", "top", ...onCluster, "--all-pods");
    await expect
      .poll(shown, polling)
      .toMatch(/^limits of pod default\/quickstart-\S+, pod default\/quickstart-\S+ +q quit/m);
    const url = "/v1/models";
    await expect
      .poll(async () => {
        await sendMany(2, { path: url, port: examplePort });
        return shown();
      }, polling)
      .toMatch(/^.*default\/chat-limits#0 +HTTPRoute\/default\/chat .*requests\/minute +15 +[1-9]/m);
    press("q");
    await expect.poll(shown, polling).toContain("exit 0\n");
  });
});
