import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { startAdmin, startMute } from "../testing/admin.ts";
import { proxyctl } from "../testing/run.ts";
import { AdminClient } from "./admin-client.ts";
import { tcpConnector } from "./proxy-connector.ts";

test("an admin server that does not respond is reported", async () => {
  const address = await startMute();
  const admin = new AdminClient(tcpConnector("127.0.0.1", Number(address.split(":")[1])), 50);
  await expect(admin.limits()).rejects.toMatchObject({
    message: `request /limits from ${address}: no response within 0.05 s`,
    exitCode: 2,
  });
});

/** Responds with a status, and sends bytes until the client closes the connection. */
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
])("an endless response is aborted: %s", async (line, path, mebibytes, status) => {
  const { address } = await startAdmin({ [`GET ${path}`]: endless(status) });
  const run = await proxyctl([...line.split(" "), "--address", address]);
  expect(run).toMatchObject({ exitCode: 2, stdout: "" });
  expect(run.stderr).toContain(
    `error: request ${path} from ${address}: the response is longer than ${mebibytes} MiB\n`,
  );
});
