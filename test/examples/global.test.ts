/**
 * `examples/global` as `npm run demo:global` runs it, on free ports: two proxies, and one service that counts for both.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import { freePort } from "../support/free-port.ts";
import { startProxy } from "../support/proxy-process.ts";
import { startRateLimitService } from "../support/ratelimit-process.ts";

const folder = join(import.meta.dirname, "../../examples/global");
const question = { model: "mock-1", messages: [{ role: "user", content: "Hi" }] };

/** The service's windows of a minute follow the clock. */
const minuteNow = () => Math.floor(Date.now() / 60_000);

test("two proxies share six requests a minute; without the service each allows three per user by its fallback", async () => {
  const service = await startRateLimitService(join(folder, "service"));
  onTestFinished(() => service.kill());
  const model = await startBackend((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ usage: { prompt_tokens: 3, completion_tokens: 7, total_tokens: 10 } }));
  });
  const port = await freePort();
  const files = { "gateway.yaml": "", "limits.yaml": "" };
  for (const file of ["gateway.yaml", "limits.yaml"] as const) {
    files[file] = readFileSync(join(folder, "manifests", file), "utf8")
      .replace("port: 8080", `port: ${port}`)
      .replace("port: 8089", `port: ${model.port}, tls: null`)
      .replace("127.0.0.1:8081", `127.0.0.1:${service.grpcPort}`)
      // The service must not count as unavailable on a slow machine.
      .replace("domain: global-demo", "domain: global-demo\n        timeout: 10s");
  }
  const hosts = ["127.0.0.1", "127.0.0.2"];
  for (const host of hosts) await startProxy(files, ["--listen-address", host, "--workers", "1"]);

  const sendRequest = async (turn: number, user: string) => {
    const response = await fetch(`http://${hosts[turn % 2] ?? ""}:${port}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-user": user },
      body: JSON.stringify(question),
    });
    await response.body?.cancel();
    return [response.status, response.headers.has("x-envoy-ratelimited")];
  };
  const send = async (count: number, user: string) => {
    const all = [];
    for (let turn = 0; turn < count; turn++) all.push(await sendRequest(turn, user));
    return all;
  };
  /** Sends the requests in one window: if a minute ends between them, repeats them for another user. */
  const sendInOneMinute = async (count: number, user: string): Promise<unknown[]> => {
    const startedMinute = minuteNow();
    const all = await send(count, user);
    return minuteNow() === startedMinute ? all : await sendInOneMinute(count, `${user}-again`);
  };
  const passed = [200, false];
  expect(await sendInOneMinute(7, "ann")).toEqual([...new Array<unknown>(6).fill(passed), [429, true]]);
  await service.kill();
  for (const user of ["bob", "cal"]) {
    expect(await sendInOneMinute(8, user)).toEqual([...new Array<unknown>(6).fill(passed), [429, false], [429, false]]);
  }
}, 60_000);
