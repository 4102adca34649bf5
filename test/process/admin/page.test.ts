/** The page at `/ui`, in a real browser against a real proxy: what an operator sees and can do. */
import { status } from "@grpc/grpc-js";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { openAdminPages } from "../../support/admin-page.ts";
import { type AdminProxy, sendToAdmin, startAdminProxy } from "../../support/admin-proxy.ts";
import { proxyctl } from "../../../proxyctl/src/testing/run.ts";
import { startMockLlm } from "../../../examples/mock-llm/src/mock-llm.ts";
import { startBackend } from "../../support/backend.ts";
import { describeWith } from "../../support/describe-with.ts";
import { backendRef, gatewayManifest, manifests, policyManifest, routeManifest } from "../../support/gateway.ts";
import { localReplyRules } from "../../support/local-reply-rules.ts";
import { findCutElements, findFaintTexts } from "../../support/page-contrast.ts";
import { freePort } from "../../support/free-port.ts";
import { startProxy } from "../../support/proxy-process.ts";
import { startScriptedService } from "../../support/rate-limit-service.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

const pageNames = ["Overview", "Routes", "Backends", "Policies", "Limits", "Trace", "Logging"] as const;

const limit = ["{ requests: 3, unit: Hours }"];
const policies = [
  policyManifest("three", "kind: HTTPRoute, name: r", limit),
  policyManifest("misplaced", "kind: HTTPRoute, name: nowhere", limit),
];

/** Limits the route by a service, per user. */
function globalManifest(servicePort: number): string {
  return `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: shared, namespace: default }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: r }]
  traffic:
    rateLimit:
      global:
        domain: chat
        address: 127.0.0.1:${servicePort}
        timeout: 5s
        descriptors: [{ entries: [{ name: user, expression: 'request.headers["x-user"]' }] }]
`;
}

interface LlmProxy extends AdminProxy {
  /** Sends a request that costs 60 tokens of input and 40 of output. */
  chat(): Promise<void>;
}

/** Starts with the mock LLM below `/v1`, limited to 200 tokens, and on other paths only the routes of `more`. */
async function startWithLlm(more: readonly string[] = []): Promise<LlmProxy> {
  const mock = await startMockLlm({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => mock.close());
  const port = await freePort();
  const llm = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${mock.port} } }
`;
  const match = "matches: [{ path: { type: PathPrefix, value: /v1 } }]";
  const chat = routeManifest("chat", [`{ ${match}, backendRefs: [${backendRef("llm")}] }`]);
  const tokens = policyManifest("tokens", "kind: HTTPRoute, name: chat", [
    "{ requests: 1000, unit: Hours }",
    "{ tokens: 200, unit: Hours }",
  ]);
  const all = manifests(gatewayManifest(port), llm, chat, tokens, ...more);
  const proxy = await startProxy({ "all.yaml": all }, ["--workers", "2"]);
  const url = `http://127.0.0.1:${port}`;
  const headers = {
    "content-type": "application/json",
    "x-mock-prompt-tokens": "60",
    "x-mock-completion-tokens": "40",
  };
  const body = JSON.stringify({ model: "mock-1", messages: [{ role: "user", content: "Why?" }] });
  return {
    proxy,
    url,
    async chat() {
      await (await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body })).text();
    },
  };
}

describeWith(["chromium"], "the page of the admin server", ({ chromium: executablePath }) => {
  const open = openAdminPages(executablePath);

  const start = async (): Promise<AdminProxy> => startAdminProxy((await startBackend()).port, policies);

  test("shows the path from the address to the endpoint, and what is not served", async () => {
    const started = await start();
    await fetch(started.url);
    const page = await open(started, "#routes");

    const address = page.getByRole("region", { name: /^Address / });
    await address.getByRole("heading", { name: /HTTP listener .* of default/ }).waitFor();
    expect(await address.getByText("any method /*").count()).toBe(1);
    const row = address.getByRole("row", { name: /127\.0\.0\.1/ });
    expect(await row.innerText()).toMatch(/1\.00\s+1\s/);
    await page.getByRole("searchbox").fill("no such route");
    await page.getByRole("status").getByText("0 of 1 route").waitFor();
    expect(await address.getByText("default/r", { exact: true }).count()).toBe(0);

    await page.getByRole("link", { name: "1 problem" }).click();
    const problems = await page.getByRole("region", { name: "Problems" }).getByRole("listitem").allInnerTexts();
    expect(problems).toEqual([expect.stringMatching(/misplaced.* does not exist; not served .*TargetNotFound/)]);
  });

  test("shows counters as they change, and why a policy does not limit", async () => {
    const started = await start();
    const page = await open(started, "#limits");
    await page.getByText("No window is open").waitFor();
    const row = page.getByRole("row", { name: /3 requests per hour/ });
    await row.getByText("0 of 3 requests").waitFor();
    for (let sent = 0; sent < 4; sent++) await fetch(started.url);
    await row.getByText("3 of 3 requests").waitFor();
    await expect
      .poll(async () => (await row.getByRole("cell").allInnerTexts()).map((text) => text.trim()))
      .toEqual(["all requests", "3 of 3 requests", "0 requests", expect.stringMatching(/^(59m|1h)/), "1"]);

    await page.getByRole("link", { name: "Policies" }).click();
    const there = page.getByRole("region", { name: "default/three" });
    await there.getByText("3 requests per hour").waitFor();
    expect(await there.innerText()).toContain("Attached");
    expect(await page.getByRole("region", { name: "default/misplaced" }).innerText()).toContain("Does not limit");
  });

  test("shows names, buckets, shares and conditions of limits, and the requests to which they do not apply", async () => {
    const entries = [
      `{ name: daily, requests: 9, unit: Days, every: 2, bucket: team-a, when: 'request.path != "/free"' }`,
      `{ name: half, requests: 8, unit: Hours, shareAcrossReplicas: true, limit: 'request.path == "/small" ? 2 : 6' }`,
    ];
    const service = await startScriptedService(() => ({ overallCode: "OK" }));
    const override = "limitOverride: { requestsPerUnit: '5', default: 4, unit: Minute }";
    const global = globalManifest(service.port).replace(
      "descriptors: [{",
      `descriptors: [{ when: 'request.path != "/free"', ${override},`,
    );
    const backend = await startBackend();
    const started = await startAdminProxy(
      backend.port,
      [policyManifest("team", "kind: HTTPRoute, name: r", entries), global],
      ["--replicas", "2"],
    );
    for (const path of ["/", "/free", "/free"]) await (await fetch(`${started.url}${path}`)).text();
    const page = await open(started, "#limits");
    const row = page.getByRole("row", { name: /default\/team#daily on/ });
    await row.getByText("9 requests per 2 days").waitFor();
    expect(await row.innerText()).toMatch(/in the bucket team-a\s+when request\.path != "\/free"\s/);
    await row.getByText("1 of 9 requests").waitFor();
    await row.getByText("0, not applied to 2").waitFor();
    const shared = page.getByRole("row", { name: /default\/team#half on/ });
    expect(await shared.innerText()).toMatch(/4 requests per hour\s+a share of 2 replicas/);
    const services = page.getByRole("table", { name: /^Global limits/ });
    expect(await services.innerText()).toContain('limited to 5 or 4 per minute, when request.path != "/free"');

    await page.getByRole("link", { name: "Policies" }).click();
    const policy = page.getByRole("region", { name: "default/team" });
    await policy.getByText("9 requests per 2 days").waitFor();
    const text = await policy.innerText();
    expect(text).toContain(
      'daily: 9 requests per 2 days in the bucket team-a, when request.path != "/free", in this replica',
    );
    expect(text).toContain("half: 8 requests per hour or ");
    expect(text).toContain("for all replicas together");

    const { stdout } = await proxyctl(["limits", "top", "--address", started.proxy.admin.slice("http://".length)]);
    expect(stdout).toMatch(
      /^default\/team#daily .* requests\/2 days \(bucket team-a, when request\.path != "\/free"\) /m,
    );
    expect(stdout).toMatch(/^default\/team#half .* requests\/hour \(share of 2 replicas\) /m);
  });

  test("shows the state of rate limit services, learned limits, and how a service fails and recovers", async () => {
    let isAway = false;
    const service = await startScriptedService(() => {
      if (isAway) return { code: status.UNAVAILABLE, details: "gone for lunch" };
      const currentLimit = { requestsPerUnit: 2_000, unit: "MINUTE" } as const;
      const durationUntilReset = { seconds: 50 };
      return { overallCode: "OK", statuses: [{ code: "OK", currentLimit, limitRemaining: 5, durationUntilReset }] };
    });
    const started = await startAdminProxy((await startBackend()).port, [globalManifest(service.port)]);
    const send = async (): Promise<void> => {
      await (await fetch(started.url, { headers: { "x-user": "ada" } })).text();
    };
    await send();
    const page = await open(started, "#limits");

    const services = page.getByRole("table", { name: /^Rate limit services/ });
    const row = services.getByRole("row", { name: new RegExp(`address/127\\.0\\.0\\.1:${service.port}`) });
    await row.getByText(/^available/).waitFor();
    expect((await row.getByRole("cell").allInnerTexts()).map((text) => text.trim())).toEqual([
      "available",
      expect.stringMatching(/^\d+s$/),
      "0",
      "0",
      "1",
    ]);
    const learned = page
      .getByRole("table", { name: /services have reported/ })
      .getByRole("row", { name: /default\/shared/ });
    expect(await learned.innerText()).toMatch(/user=ada\s+2,000 requests in 1m/);

    isAway = true;
    for (let sent = 0; sent < 40; sent++) await send();
    await row.getByText(/^unavailable/).waitFor();
    expect(await row.innerText()).toMatch(
      /last error \d+s ago: (gRPC status 14: gone for lunch|the service reports that it is not serving)/,
    );
    expect(await row.getByRole("time").first().getAttribute("title")).toMatch(/Z$/);
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByText(/^Rate limit service .* is unavailable: /).waitFor();
    await page.getByRole("link", { name: "Limits", exact: true }).click();

    isAway = false;
    await expect.poll(async () => (await send(), row.getByText(/^available/).count()), { timeout: 20_000 }).toBe(1);
  });

  test("shows the providers of a Backend, and which of them are out of quota or fail", async () => {
    const [first, second] = await Promise.all([0, 0].map((port) => startMockLlm({ port, host: "127.0.0.1" })));
    if (first === undefined || second === undefined) throw new Error("a mock did not start");
    for (const mock of [first, second]) onTestFinished(() => mock.close());
    const provider = (name: string, port: number): string => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ${name}, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${port}, auth: { secretRef: { name: llm-key } } } }
`;
    const port = await freePort();
    const chat = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: chat, namespace: default }
spec:
  ai:
    providers:
      - { backendRef: { name: first }, weight: 3 }
      - { backendRef: { name: second }, priority: 1 }
---
apiVersion: v1
kind: Secret
metadata: { name: llm-key, namespace: default }
stringData: { apiKey: secret-of-the-provider }
`;
    const route = routeManifest("chat", [`{ backendRefs: [${backendRef("chat")}] }`]);
    const parts = [gatewayManifest(port), chat, provider("first", first.port), provider("second", second.port), route];
    const proxy = await startProxy({ "all.yaml": manifests(...parts) });
    const send = async (): Promise<number> => {
      const body = JSON.stringify({ model: "any", messages: [{ role: "user", content: "Why?" }] });
      const headers = { "content-type": "application/json", "x-mock-delay-ms": "0" };
      const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, { method: "POST", headers, body });
      await response.text();
      return response.status;
    };
    expect(await send()).toBe(200);
    const page = await open({ proxy }, "#backends");
    const providers = page.getByRole("table", { name: "Providers of Backend/default/chat" });
    const cells = async (name: string): Promise<readonly string[]> => {
      const row = providers.getByRole("row", { name: `default/${name}` });
      return (await row.getByRole("cell").allInnerTexts()).map((text) => text.trim());
    };
    await providers.waitFor();
    expect([await cells("first"), await cells("second")]).toEqual([
      ["0", "3", "available"],
      ["1", "1", "available"],
    ]);

    first.behave({ status: 429, "retry-after": 50 });
    second.behave({ status: 503 });
    for (let sent = 0; sent < 5; sent++) expect(await send()).toBe(503);
    await providers.getByText(/^out of quota: no requests for \d/).waitFor();
    await providers.getByText(/^fails: no requests for \d/).waitFor();
    expect([(await cells("first"))[2], (await cells("second"))[2]]).toEqual([
      expect.stringMatching(/^out of quota: no requests for [1-5]?\d\.\d s$/),
      expect.stringMatching(/^fails: no requests for 1?\d\.\d s$/),
    ]);
    expect(await page.content()).not.toContain("secret-of-the-provider");
  });

  test("can be used by keyboard alone: the focus is visible and follows the reading order", async () => {
    const started = await start();
    const page = await open(started, "#trace");
    await page.getByRole("button", { name: "Record" }).waitFor();
    const stops: string[] = [];
    for (let pressed = 0; pressed < 12; pressed++) {
      await page.keyboard.press("Tab");
      const focused = page.locator(":focus");
      const outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle");
      stops.push(`${(await focused.getAttribute("name")) ?? (await focused.innerText())} ${String(outline)}`);
    }
    const expected = ["Skip to the content", ...pageNames, "1 problem", "Pause", "expression", "Record"];
    expect(stops).toEqual(expected.map((name) => `${name} solid`));
    for (let pressed = 0; pressed < 11; pressed++) await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Enter");
    expect(await page.locator(":focus").getAttribute("id")).toBe("main");
  });

  test("changes the log level, says why a level is rejected, and can be used by keyboard alone", async () => {
    const started = await start();
    const page = await open(started);
    await page.getByRole("link", { name: "Logging" }).focus();
    await page.keyboard.press("Enter");
    await page.getByLabel(/^Level/).focus();
    await page.keyboard.type("warn");
    await page.keyboard.press("Enter");
    await page.getByRole("status").getByText("warn").waitFor();
    expect(await page.getByRole("row", { name: /proxy::access/ }).innerText()).toMatch(
      /warn\s+requests: one line for each/,
    );
    expect((await sendToAdmin(`${started.proxy.admin}/logging`)).text).toMatch(/^current log level is warn\n/);

    await page.getByLabel(/^Level/).fill("loud");
    // The browser itself logs the response with an error status.
    page.removeAllListeners("console");
    await page.keyboard.press("Enter");
    const alert = await page.getByRole("alert").innerText();
    expect(alert).toContain("accepted are");
    expect(alert).not.toContain("POST");
    await page.getByRole("button", { name: "Reset to the level of the start" }).click();
    await page.getByRole("status").getByText("info").waitFor();
  });

  test("records the next request that matches, event by event", async () => {
    const started = await start();
    const page = await open(started, "#trace");
    await page.getByLabel(/CEL/).fill('request.path == "/wanted"');
    await page.getByRole("button", { name: "Record" }).click();
    await page.getByText("Waiting for a request").waitFor();
    await fetch(`${started.url}/other`);
    await fetch(`${started.url}/wanted`);
    await page.getByText("The request has ended").waitFor();
    const events = page.getByRole("list", { name: "Events" });
    const words = await events.getByRole("button").allInnerTexts();
    expect(words.map((text) => text.replaceAll(/\s+/g, " ").replace(/^[\d.]+ ms /, ""))).toEqual([
      expect.stringMatching(/^Request GET http:.*\/wanted from 127\.0\.0\.1$/),
      "Route default/r/0 by path prefix /",
      "Policies default/three",
      "Limit allowed by default/three#0, requests 1 → 2 of 3",
      expect.stringMatching(/^Attempt 127\.0\.0\.1:\d+ \(backend\) of Backend\/default\/b$/),
      expect.stringMatching(/^Response 200 from /),
      expect.stringMatching(/^Finished 200, \d+ bytes$/),
    ]);
    await events.getByRole("button", { name: /Finished 200/ }).click();
    expect(await page.getByLabel("Event", { exact: true }).innerText()).toContain('"status": 200');
  });

  test("links the trace of a recorded request to the backend of the setting", async () => {
    const template = "https://jaeger.example.com/trace/{traceId}?uiFind={spanId}&q=\"<x>'";
    const started = await startAdminProxy((await startBackend()).port, [], ["--trace-url-template", template]);
    const page = await open(started, "#trace");
    const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
    const record = async (headers: Record<string, string>): Promise<void> => {
      await page.getByRole("button", { name: "Record" }).click();
      await page.getByText("Waiting for a request").waitFor();
      await fetch(started.url, { headers });
      await page.getByText("The request has ended").waitFor();
    };
    await record({ traceparent: `00-${traceId}-00f067aa0ba902b7-01` });
    const link = page.getByRole("link", { name: traceId });
    expect(await link.getAttribute("href")).toBe(
      `https://jaeger.example.com/trace/${traceId}?uiFind=00f067aa0ba902b7&q="<x>'`,
    );
    expect(await link.getAttribute("rel")).toBe("noopener noreferrer");
    await record({});
    expect(await page.getByRole("link", { name: traceId }).count()).toBe(0);
  });

  test.each(["", "#limits"])(
    "reports once that the proxy does not respond, and still shows earlier data (%s)",
    async (path) => {
      const started = await start();
      const page = await open(started, path);
      await page.getByText("Generation 1").first().waitFor();
      page.removeAllListeners("console");
      started.proxy.kill("SIGKILL");
      await page.getByRole("alert").getByText("does not respond").waitFor();
      await expect.poll(() => page.getByText("Not responding").count()).toBe(1);
      expect(await page.getByRole("alert").count()).toBe(1);
    },
  );

  describe("Overview", () => {
    test("shows traffic as it arrives: statuses, tokens, denials, and the most used limit", async () => {
      const started = await startWithLlm();
      const page = await open(started);
      const figure = (title: string) => page.getByRole("figure", { name: title, exact: true });
      await page.getByText("No request has ended since the start.").waitFor();
      await figure("Requests").getByText("0 requests in the last").waitFor();
      for (let sent = 0; sent < 3; sent++) await started.chat();
      await fetch(`${started.url}/nowhere`);

      await figure("Requests").getByText("4 requests in the last").waitFor();
      expect(await figure("Requests").getByRole("listitem").allInnerTexts()).toEqual(["2xx 2", "4xx 2"]);
      expect(await figure("Denied by limits").innerText()).toContain("1 per minute");
      expect(await figure("Request duration").innerText()).toMatch(/[\d.]+ m?s median/);
      expect(await figure("LLM tokens").innerText()).toContain("200 per minute");
      expect(await figure("LLM tokens").getByRole("listitem").allInnerTexts()).toEqual(["input 120", "output 80"]);
      expect(await page.getByRole("img", { name: /^LLM tokens, the last 1m: at most 200 per minute/ }).count()).toBe(1);

      const limits = page.getByRole("region", { name: "Limits" });
      const nearest = limits.getByRole("row").nth(1);
      await nearest.getByText("200 of 200 tokens").waitFor();
      expect(await nearest.innerText()).toContain("200 tokens per hour");
      expect(await page.getByText("No request has ended since the start.").count()).toBe(0);
      const route = page.getByRole("region", { name: "Busiest routes" }).getByRole("row", { name: /default\/chat/ });
      expect((await route.getByRole("cell").allInnerTexts()).slice(1)).toEqual(["3", "1", "0", "1", "200", "200"]);
    });

    test("pauses while it is hidden or paused, and resumes at once", async () => {
      const page = await open(await start());
      const requested: string[] = [];
      page.on("request", (request) => requested.push(new URL(request.url()).pathname));
      const requests = page.getByRole("region", { name: "Since the start" });
      await requests.waitFor();
      await page.clock.install();

      await page.getByRole("button", { name: "Pause" }).click();
      await page.getByText("Updates are paused").waitFor();
      requested.length = 0;
      await page.clock.runFor(20_000);
      expect(requested).toEqual([]);
      const goesOn = page.waitForRequest(/\/traffic$/);
      await page.getByRole("button", { name: "Pause" }).click();
      await goesOn;

      const hide = (isHidden: boolean): string =>
        `Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true });
         document.dispatchEvent(new Event("visibilitychange"))`;
      await page.evaluate(hide(true));
      await page.waitForLoadState("networkidle");
      requested.length = 0;
      await page.clock.runFor(20_000);
      expect(requested).toEqual([]);
      const isBack = page.waitForRequest(/\/traffic$/);
      await page.evaluate(hide(false));
      await isBack;
    });
  });

  test("shows the status of the local reply of a rule without a usable backend", async () => {
    const rules = localReplyRules.filter(({ status }) => status !== 302);
    const started = await startAdminProxy(
      (await startBackend()).port,
      rules.map((rule) => rule.manifests),
    );
    const page = await open(started, "#routes");
    const address = page.getByRole("region", { name: /^Address / });
    await address.waitFor();
    for (const { name } of rules) {
      const { status: responded } = await fetch(`${started.url}/${name}`);
      const route = address.locator("details").filter({ hasText: `default/${name}` });
      await route.locator("summary").click();
      await route.getByText(`get a ${responded} response: `).waitFor();
    }
  });

  test("names both routes of a conflict, in the list and at the losing route", async () => {
    const rule = `{ matches: [{ path: { type: PathPrefix, value: /x } }], backendRefs: [${backendRef("b")}] }`;
    const more = ["first", "second"].map((name) => routeManifest(name, [rule]));
    const page = await open(await startAdminProxy((await startBackend()).port, more), "#routes");
    const both = /default\/second.*no request can reach rule 0 .*HTTPRoute default\/first matches the same/s;
    expect(await page.getByRole("region", { name: "Conflicts" }).innerText()).toMatch(both);
    const loser = page.locator("details").filter({ hasText: "default/second" });
    expect(await loser.locator("summary").innerText()).toContain("Shadowed");
    expect(await loser.innerText()).toMatch(/Shadowed \(NameOrder\): no request can reach rule 0 .*default\/first/);
  });

  test("explains on each empty page why it is empty", async () => {
    const proxy = await startProxy({ "gateway.yaml": gatewayManifest(await freePort()) }, ["--workers", "1"]);
    const page = await open({ proxy });
    for (const [name, explanation] of [
      ["overview", "No request has ended since the start."],
      ["routes", "No route is attached: requests get a 404 response."],
      ["backends", "There are no backends."],
      ["policies", "There is no ProxyPolicy, so nothing is limited."],
      ["limits", "Nothing is limited."],
      ["trace", "Press Record, then send a request."],
    ] as const) {
      await page.goto(`${proxy.admin}/ui#${name}`);
      await page.getByRole("main").getByText(explanation).first().waitFor();
    }
  });

  test.each(["light", "dark"] as const)(
    "fits 400 px, can be read and has a title on every page (%s)",
    async (colorScheme) => {
      const started = await startWithLlm(localReplyRules.map((rule) => rule.manifests));
      const viewport = { width: 400, height: 800 };
      const page = await open(started, "", { colorScheme, viewport });
      for (let sent = 0; sent < 3; sent++) await started.chat();
      const titles: string[] = [];
      for (const name of pageNames) {
        await page.goto(`${started.proxy.admin}/ui#${name.toLowerCase()}`);
        await page.getByRole("heading", { level: 2, name }).waitFor();
        await expect.poll(() => page.getByText(/^Loading…|^waiting for the second/).count()).toBe(0);
        for (const summary of await page.locator("summary").all()) await summary.click();
        titles.push(await page.title());
        const [needed, there] = await page.evaluate<[number, number]>(
          "[document.documentElement.scrollWidth, document.documentElement.clientWidth]",
        );
        expect([name, needed]).toEqual([name, there]);
        expect([name, await findFaintTexts(page)]).toEqual([name, []]);
        expect([name, await findCutElements(page)]).toEqual([name, []]);
      }
      expect(titles).toEqual(
        pageNames.map((name) => `${name} – gateway proxy at ${new URL(started.proxy.admin).host}`),
      );
    },
  );
});
