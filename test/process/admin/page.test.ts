/** The page at `/ui`, in a real browser against a real proxy: what an operator sees and can do, by what the page says. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type AdminProxy, askAdmin, startAdminProxy } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";
import { describeWith } from "../../support/describe-with.ts";
import { policyManifest } from "../../support/gateway.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));

const limit = ["{ requests: 3, unit: Hours }"];
const policies = [
  policyManifest("three", "kind: HTTPRoute, name: r", limit),
  policyManifest("misplaced", "kind: HTTPRoute, name: nowhere", limit),
];

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

  test("changes what is logged, says why a level is refused, and is worked by keyboard alone", async () => {
    const started = await start();
    const page = await open(started);
    await page.getByRole("link", { name: "Logging" }).focus();
    await page.keyboard.press("Enter");
    await page.getByLabel(/^Level/).focus();
    await page.keyboard.type("warn");
    await page.keyboard.press("Enter");
    await page.getByRole("status").getByText("warn").waitFor();
    expect((await askAdmin(`${started.proxy.admin}/logging`)).text).toBe("current log level is warn\n");

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
