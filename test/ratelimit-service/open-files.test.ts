/** A service with a low limit of open files: the connections of one address do not use all of them up. */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { startRateLimitService } from "../support/ratelimit-process.ts";

const openFiles = 256;

test("connections of one address leave open files for others", async () => {
  const folder = await mkdtemp(join(tmpdir(), "open-files-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "limits.yaml"), "domain: chat\n");
  const service = await startRateLimitService(folder, {}, [], undefined, openFiles);
  onTestFinished(() => service.kill());
  const opened: Socket[] = [];
  for (const port of [service.grpcPort, Number(new URL(service.http).port)]) {
    for (let at = 0; at < openFiles; at++) {
      const socket = connect({ port, host: "127.0.0.1", localAddress: "127.0.0.2" }).on("error", () => undefined);
      onTestFinished(() => void socket.destroy());
      await once(socket, "connect").catch(() => undefined);
      opened.push(socket);
    }
  }
  const client = connectRateLimit(service.grpcPort);
  onTestFinished(() => client.close());
  expect((await client.send({ domain: "chat", descriptors: [descriptor("a=b")] })).overallCode).toBe("OK");
  expect((await fetch(`${service.http}/healthcheck`)).status).toBe(200);
  await expect.poll(() => opened.filter(({ closed }) => !closed).length).toBeLessThanOrEqual(openFiles / 2);
});
