/** What the page at `/ui` shows of reservations and of saved counters, in a real browser against a real proxy. */
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { openAdminPages } from "../../support/admin-page.ts";
import { startAdminProxy } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";
import { describeWith } from "../../support/describe-with.ts";
import { freePort } from "../../support/free-port.ts";
import { backendRef, gatewayManifest, manifests, policyManifest, routeManifest } from "../../support/gateway.ts";
import { HeldProvider, stream } from "../../support/held-provider.ts";
import { stateDirectory } from "../../support/mortal-proxy.ts";
import { startProxy } from "../../support/proxy-process.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

describeWith(["chromium"], "the limits of the page of the admin server", ({ chromium: executablePath }) => {
  const open = openAdminPages(executablePath);

  test("shows what requests in progress hold of a limit, until they end", async () => {
    const provider = new HeldProvider();
    const { port: backendPort } = await startBackend(provider.respond);
    const port = await freePort();
    const llm = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${backendPort} } }
`;
    const entries = ["{ tokens: 1000, unit: Hours, reserve: Estimate }", "{ concurrent: 5 }"];
    const parts = [
      ...[gatewayManifest(port), llm, routeManifest("chat", [`{ backendRefs: [${backendRef("llm")}] }`])],
      policyManifest("limits", "kind: HTTPRoute, name: chat", entries),
    ];
    const proxy = await startProxy({ "all.yaml": manifests(...parts) });
    // 400 bytes are estimated as 100 tokens.
    const body = JSON.stringify({ model: "m", messages: [], stream: true, max_tokens: 100 }).padEnd(400);
    const request = fetch(`http://127.0.0.1:${port}/v1/chat/completions`, { method: "POST", body });
    const response = await provider.next();
    const page = await open({ proxy }, "#limits");
    const tokens = page.getByRole("row", { name: /1,000 tokens per hour/ });
    await tokens.getByText("200 tokens held by requests in progress").waitFor();
    await tokens.getByText("200 of 1,000 tokens").waitFor();
    const concurrent = page.getByRole("row", { name: /5 concurrent requests/ });
    expect(await concurrent.innerText()).toContain("1 of 5 concurrent requests");
    expect(await concurrent.getByText("held").count()).toBe(0);

    stream(response, 90, 10);
    await (await request).text();
    await tokens.getByText("100 of 1,000 tokens").waitFor();
    expect(await page.getByText("held by requests in progress").count()).toBe(0);
  });

  test("says that counters are not saved without a directory", async () => {
    const hourly = policyManifest("three", "kind: HTTPRoute, name: r", ["{ requests: 3, unit: Hours }"]);
    const started = await startAdminProxy((await startBackend()).port, [hourly]);
    const page = await open(started, "#limits");
    const saved = page.getByRole("region", { name: "Saved counters" });
    await saved.getByText("None: counters start from zero with the proxy.").waitFor();
    await page.goto(page.url().replace("#limits", "#overview"));
    await page.getByRole("region", { name: "Limits" }).getByRole("link", { name: "All limits" }).waitFor();
    expect(await page.getByText("Counters cannot be saved").count()).toBe(0);
  });

  test.skipIf(process.getuid?.() !== 0)(
    "shows the directory of saved counters, that its disk is full, and that it has space again",
    async () => {
      const directory = await stateDirectory();
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=256k", "tmpfs", directory]);
      onTestFinished(() => void execFileSync("umount", ["--lazy", directory]));
      const daily = `{ requests: 1000, unit: Days, key: 'request.headers["x-client"]' }`;
      const started = await startAdminProxy(
        (await startBackend()).port,
        [policyManifest("daily", "kind: HTTPRoute, name: r", [daily])],
        ["--state-dir", directory],
      );
      const send = async (client: number): Promise<void> => {
        await (await fetch(started.url, { headers: { "x-client": `client ${client}` } })).text();
      };
      await send(0);
      const page = await open(started, "#limits");
      const saved = page.getByRole("region", { name: "Saved counters" });
      await saved.getByText(/^The file in .* has [1-9][\d.]* (bytes|kB), with everything until \ds ago\.$/).waitFor();
      expect(await saved.getByText("Counters cannot be saved").count()).toBe(0);

      const filler = join(directory, "filler");
      expect(() => writeFileSync(filler, Buffer.alloc(1024 * 1024))).toThrow("ENOSPC");
      for (let client = 0; client < 200; client++) await send(client);
      const warning = `Counters cannot be saved in ${directory}: ENOSPC: no space left on device, write.`;
      await saved.getByText(warning).waitFor();
      await page.getByRole("link", { name: "Overview" }).click();
      await page.getByRole("region", { name: "Limits" }).getByText(warning).waitFor();

      rmSync(filler);
      await page.getByRole("link", { name: "Limits", exact: true }).click();
      await expect.poll(() => saved.getByText("Counters cannot be saved").count(), { timeout: 60_000 }).toBe(0);
      await saved.getByText(/^last error .* ago: ENOSPC/).waitFor();
    },
  );
});
