/** The page at `/ui`, in a real browser against a real proxy: what an operator sees and can do, by what the page says. */
import { status } from "@grpc/grpc-js";
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type AdminProxy, askAdmin, startAdminProxy } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";
import { describeWith } from "../../support/describe-with.ts";
import { policyManifest } from "../../support/gateway.ts";
import { startScriptedService } from "../../support/rate-limit-service.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));

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

describeWith(["chromium"], "the page of the admin server", ({ chromium: executablePath }) => {
  let browser: Browser;

  beforeAll(async () => {
    execFileSync("npm", ["run", "--silent", "build:ui"], { cwd: root, stdio: "pipe" });
    // Chromium's sandbox needs user namespaces, which containers and root do not have.
    browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  });
  afterAll(() => browser.close());

  /** Opens the page; the test fails if it logs an error, which a breach of its content security policy is too. */
  async function open({ proxy }: AdminProxy, path = ""): Promise<Page> {
    const page = await browser.newPage();
    const faults: string[] = [];
    page.on("pageerror", (error) => faults.push(error.message));
    page.on("console", (message) => {
      if (message.type() === "error") faults.push(message.text());
    });
    onTestFinished(async () => {
      await page.close();
      expect(faults).toEqual([]);
    });
    await page.goto(`${proxy.admin}/ui${path}`);
    return page;
  }

  const start = async (): Promise<AdminProxy> => startAdminProxy((await startBackend()).port, policies);

  test("shows the way from the address to the endpoint, and what is not served", async () => {
    const started = await start();
    await fetch(started.url);
    const page = await open(started);

    const address = page.getByRole("region", { name: /^Address / });
    await address.getByRole("heading", { name: /HTTP listener .* of default/ }).waitFor();
    await address.getByText("default/r", { exact: true }).click();
    expect(await address.getByText("any method /*").count()).toBe(1);
    const row = address.getByRole("row", { name: /127\.0\.0\.1/ });
    expect(await row.innerText()).toMatch(/1\.00\s+1\s/);
    expect(await page.getByRole("region", { name: "Problems" }).innerText()).toContain("misplaced");

    await page.getByRole("searchbox").fill("no such route");
    expect(await address.getByText("default/r", { exact: true }).count()).toBe(0);
  });

  test("counts before one's eyes, and tells which policy does not limit and why", async () => {
    const started = await start();
    const page = await open(started, "#limits");
    await page.getByText("Nothing is counted at the moment").waitFor();
    for (let sent = 0; sent < 3; sent++) await fetch(started.url);
    const row = page.getByRole("row", { name: /default\/three/ });
    await row.getByText("3 of 3 requests per hour").waitFor();
    expect(await row.getByText(/^(59m|1h)/).count()).toBe(1);

    await page.getByRole("link", { name: "Policies" }).click();
    const there = page.getByRole("region", { name: "default/three" });
    await there.getByText("3 requests per hour, per replica").waitFor();
    expect(await there.innerText()).toContain("Attached");
    expect(await page.getByRole("region", { name: "default/misplaced" }).innerText()).toContain("Does not limit");
  });

  test("shows how rate limit services are, what they have told, and how they go and come back", async () => {
    let isAway = false;
    const service = await startScriptedService(() => {
      if (isAway) return { code: status.UNAVAILABLE, details: "gone for lunch" };
      const currentLimit = { requestsPerUnit: 2_000, unit: "MINUTE" } as const;
      const durationUntilReset = { seconds: 50 };
      return { overallCode: "OK", statuses: [{ code: "OK", currentLimit, limitRemaining: 5, durationUntilReset }] };
    });
    const started = await startAdminProxy((await startBackend()).port, [globalManifest(service.port)]);
    const ask = async (): Promise<void> => {
      await (await fetch(started.url, { headers: { "x-user": "ada" } })).text();
    };
    await ask();
    const page = await open(started, "#limits");

    const services = page.getByRole("region", { name: "Rate limit services" });
    const row = services.getByRole("row", { name: new RegExp(`address/127\\.0\\.0\\.1:${service.port}`) });
    await row.getByText("answers").waitFor();
    expect(await row.getByRole("cell").allInnerTexts()).toEqual([
      "answers",
      expect.stringMatching(/^\d+s$/),
      "0",
      "0",
      "1",
    ]);
    const learned = page.getByRole("region", { name: "Learned limits" }).getByRole("row", { name: /default\/shared/ });
    expect(await learned.innerText()).toMatch(/user=ada\s+2,000 requests in 1m/);

    isAway = true;
    for (let sent = 0; sent < 40; sent++) await ask();
    await row.getByText(/^away/).waitFor();
    expect(await row.innerText()).toMatch(/last error \d+s ago: gRPC status 14: gone for lunch/);
    expect(await row.getByRole("time").first().getAttribute("title")).toMatch(/Z$/);

    isAway = false;
    await expect.poll(async () => (await ask(), row.getByText("answers").count()), { timeout: 20_000 }).toBe(1);
  });

  test("is worked by keyboard alone: what has the focus is seen, in the order in which it is read", async () => {
    const started = await start();
    for (let sent = 0; sent < 3; sent++) await fetch(started.url);
    const page = await open(started, "#limits");
    await page.getByRole("row", { name: /default\/three/ }).waitFor();
    const stops: string[] = [];
    for (let pressed = 0; pressed < 8; pressed++) {
      await page.keyboard.press("Tab");
      const focused = page.locator(":focus");
      const outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle");
      stops.push(`${(await focused.getAttribute("aria-label")) ?? (await focused.innerText())} ${String(outline)}`);
    }
    expect(stops).toEqual([
      "Skip to the content solid",
      ...["Traffic", "Backends", "Policies", "Limits", "Trace", "Logging"].map((name) => `${name} solid`),
      "Counters solid",
    ]);
    await page.keyboard.press("Shift+Tab");
    for (let pressed = 0; pressed < 6; pressed++) await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Enter");
    expect(await page.locator(":focus").getAttribute("id")).toBe("main");
  });

  test("changes what is logged, says why a level is refused, and is worked by keyboard alone", async () => {
    const started = await start();
    const page = await open(started);
    await page.getByRole("link", { name: "Logging" }).focus();
    await page.keyboard.press("Enter");
    await page.getByLabel(/^Level/).focus();
    await page.keyboard.type("warn");
    await page.keyboard.press("Enter");
    await page.getByRole("status").getByText("warn").waitFor();
    expect((await askAdmin(`${started.proxy.admin}/logging`)).text).toMatch(/^current log level is warn\n/);

    await page.getByLabel(/^Level/).fill("loud");
    // The browser reports the refusal to its console by itself.
    page.removeAllListeners("console");
    await page.keyboard.press("Enter");
    expect(await page.getByRole("alert").innerText()).toContain("accepted are");
    await page.getByRole("button", { name: "Back to the settings" }).click();
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
    expect(await events.innerText()).toContain("GET");
    await events.getByRole("button", { name: /requestFinished 200/ }).click();
    expect(await page.getByLabel("Event", { exact: true }).innerText()).toContain('"status": 200');
  });

  test("says so when the proxy is gone", async () => {
    const started = await start();
    const page = await open(started);
    await page.getByText("Generation 1").waitFor();
    page.removeAllListeners("console");
    started.proxy.kill("SIGKILL");
    await page.getByRole("alert").getByText("does not answer").waitFor();
    expect(await page.getByText("Not answering").count()).toBe(1);
  });
});
