import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { startAdmin, startMute } from "../testing/admin.ts";
import { proxyctl } from "../testing/run.ts";
import { AdminClient } from "./admin-client.ts";
import { directReach } from "./reach.ts";

test("an admin server that does not answer is given up, and told", async () => {
  const address = await startMute();
  const admin = new AdminClient(directReach("127.0.0.1", Number(address.split(":")[1])), 50);
  await expect(admin.limits()).rejects.toMatchObject({
    message: `ask ${address} for /limits: no answer within 0.05 s`,
    exitCode: 2,
  });
});

/** Answers with a status, and bytes until the client goes away. */
function endless(status: number) {
  return (_: unknown, response: ServerResponse): void => {
    response.writeHead(status);
    const block = Buffer.alloc(2 ** 18, "a");
    const more = (fault?: Error | null): void => {
      if (fault === undefined || fault === null) response.write(block, more);
    };
    more();
  };
}

test.each([
  ["logging", "/logging", 1, 200],
  ["limits explain id", "/limits/decisions", 16, 200],
  ["limits top", "/limits", 64, 200],
  ["config all", "/config_dump", 1, 500],
  ["trace --plain", "/debug/trace", 16, 200],
])("an answer without end is given up: %s", async (line, path, mebibytes, status) => {
  const { address } = await startAdmin({ [`GET ${path}`]: endless(status) });
  const run = await proxyctl([...line.split(" "), "--address", address]);
  expect(run).toMatchObject({ exitCode: 2, stdout: "" });
  expect(run.stderr).toContain(`error: ask ${address} for ${path}: the answer is longer than ${mebibytes} MiB\n`);
});
