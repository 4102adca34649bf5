/** Opens pages of the admin server in a real browser. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import type { AdminProxy } from "./admin-proxy.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Opens the page; the test fails if it logs an error, such as a violation of its content security policy. */
export type OpenAdminPage = (
  proxy: Pick<AdminProxy, "proxy">,
  path?: string,
  options?: BrowserContextOptions,
) => Promise<Page>;

/**
 * Builds the page if its source has changed, and starts a browser for the tests of a `describe` block. Returns what
 * opens a page in it.
 */
export function openAdminPages(executablePath: string): OpenAdminPage {
  let browser: Browser;
  beforeAll(async () => {
    execFileSync(process.execPath, ["scripts/build-page.ts"], { cwd: root, stdio: "pipe" });
    // Chromium's sandbox needs user namespaces, which containers and root do not have.
    browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  });
  afterAll(() => browser.close());

  return async ({ proxy }, path = "", options = {}) => {
    const page = await browser.newPage(options);
    page.setDefaultTimeout(20_000);
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
  };
}
