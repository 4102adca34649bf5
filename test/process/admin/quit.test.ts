/** `/quitquitquit`: the shutdown under load loses no request. */
import type { ServerResponse } from "node:http";
import { get } from "node:http";
import { expect, test, vi } from "vitest";
import { sendToAdmin, startAdminProxy } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

const requests = 200;
const streams = 20;

test("finishes 200 requests and 20 streams in progress, accepts no more, and exits with 0", async () => {
  const waiting: ServerResponse[] = [];
  const backend = await startBackend((request, response) => {
    response.writeHead(200, { "content-type": "text/plain" });
    if (request.url === "/probe") {
      response.end();
      return;
    }
    if (request.url === "/stream") response.write("begun\n");
    waiting.push(response);
  });
  const { proxy, url } = await startAdminProxy(backend.port);
  const started = Array.from({ length: requests + streams }, (_, at) =>
    read(`${url}${at < streams ? "/stream" : "/"}`),
  );
  await expect.poll(() => waiting.length, { timeout: 15_000 }).toBe(requests + streams);

  expect(await sendToAdmin(`${proxy.admin}/quitquitquit`, { method: "POST" })).toMatchObject({
    status: 200,
    text: "shutdown now\n",
  });
  await proxy.logged(({ msg }) => msg === "shutting down");
  await expect
    .poll(async () => (await fetch(`${proxy.readiness}/healthz/ready`)).status, { timeout: 15_000 })
    .toBe(503);
  // The admin server still responds during the shutdown.
  expect((await sendToAdmin(`${proxy.admin}/config_dump`)).status).toBe(200);
  // A listener closes a moment after readiness is withdrawn; a request in between is served, and must not wait with the
  // rest.
  await expect
    .poll(
      () =>
        read(`${url}/probe`).then(
          () => "served",
          () => "closed",
        ),
      { timeout: 15_000 },
    )
    .toBe("closed");
  for (const response of waiting) response.end("done\n");
  const bodies = await Promise.all(started);
  expect(bodies.filter((body) => body === "begun\ndone\n")).toHaveLength(streams);
  expect(bodies.filter((body) => body === "done\n")).toHaveLength(requests);
  expect(await proxy.exited).toBe(0);
  expect(proxy.log.find(({ msg }) => msg === "stopped")).toMatchObject({ kind: "completed" });
});

function read(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent: false }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        body += chunk;
      });
      response.on("error", reject);
      response.on("end", () => resolve(body));
    });
    request.on("error", reject);
  });
}
