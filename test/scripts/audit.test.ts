import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { verdictOf } from "../../scripts/audit.ts";

const script = join(import.meta.dirname, "../../scripts/audit.ts");

interface Advisory {
  readonly id: number;
  readonly severity: string;
  readonly title: string;
  readonly url: string;
  readonly vulnerable_versions: string;
}

/**
 * Runs the check against a registry that responds to audits with the result of `respond` for the requested versions.
 */
async function auditWith(
  respond: (
    versions: Readonly<Record<string, readonly string[]>>,
  ) => Readonly<Record<string, readonly Advisory[]>> | number,
) {
  const folder = mkdtempSync(join(tmpdir(), "audit-test-"));
  const server = createServer((request, response) => {
    void buffer(request).then((body) => {
      if (request.method !== "POST") {
        response.writeHead(404).end();
        return;
      }
      // The form of npm's request.
      const result = respond(JSON.parse(gunzipSync(body).toString()) as Record<string, readonly string[]>);
      if (typeof result === "number") response.writeHead(result).end();
      else response.end(JSON.stringify(result));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true });
  });
  const notRun = join(folder, "not-run");
  const child = spawn(process.execPath, [script], {
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      ...process.env,
      NOT_RUN: notRun,
      npm_config_cache: folder,
      // A listening TCP server has an address with a port.
      npm_config_registry: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    },
  });
  const exited = new Promise<number | null>((resolve) => child.on("exit", resolve));
  const output = (await buffer(child.stdout)).toString();
  return { status: await exited, output, notRun };
}

const advisory: Advisory = {
  id: 1,
  severity: "high",
  title: "Requests may be smuggled",
  url: "https://registry.test/1",
  vulnerable_versions: "<=999.0.0",
};

test("a high finding in a production package fails", async () => {
  const { status, output } = await auditWith((versions) =>
    versions["undici"] === undefined ? {} : { undici: [advisory] },
  );
  expect(output).toContain(
    "high: undici <=999.0.0: Requests may be smuggled, https://registry.test/1\nnpm audit: 1 high or critical, 0 other findings",
  );
  expect(status).toBe(1);
});

test("development dependencies are not audited, and a moderate finding does not fail", async () => {
  const { status, output } = await auditWith((versions) => {
    expect(Object.keys(versions)).not.toContain("vitest");
    return { undici: [{ ...advisory, severity: "moderate" }] };
  });
  expect(output).toContain("npm audit: 0 high or critical, 1 other findings");
  expect(status).toBe(0);
});

test("with a registry without audits the check is skipped, and the run reports it at its end", async () => {
  const { status, output, notRun } = await auditWith(() => 405);
  expect(output).toMatch(/^-- not run: npm audit: 405 Method Not Allowed - POST http:/);
  expect(readFileSync(notRun, "utf8")).toMatch(/^npm audit: 405 Method Not Allowed - POST \S+\n$/);
  expect(status).toBe(0);
});

test.each(["", "npm error code EAI_AGAIN", "{}"])("an output without a report is a failure: %j", (output) => {
  expect(verdictOf(output).kind).toBe("unavailable");
});
