/** Ports for programs that are started with the number of their port. */
import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/** Below the range from which the kernel assigns ports (on Linux, from 32768), so that no connection takes one. */
const firstPort = 12_000;
/**
 * Each worker of a test run has its own range of ports, because a program binds its port some time after the search.
 */
const portsPerWorker = 1_000;
const workers = 20;
const start = firstPort + (Number(process.env["VITEST_POOL_ID"] ?? 0) % workers) * portsPerWorker;
let next = randomInt(portsPerWorker);

/** Returns a port of 127.0.0.1 without a listener, another one with each call. */
export async function freePort(): Promise<number> {
  const port = start + next;
  next = (next + 1) % portsPerWorker;
  const server = createServer();
  const isFree = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => resolve(true));
  });
  if (!isFree) return freePort();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
