/** Connections and requests that last for minutes by the clock of the proxy, which runs 60 times as fast. */
import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { startBackend } from "../support/backend.ts";
import { describeWith } from "../support/describe-with.ts";
import { fastClock } from "../support/fast-clock.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../support/gateway.ts";
import { freePort } from "../support/free-port.ts";
import { startProxy } from "../support/proxy-process.ts";
import { sendHttp2 } from "../support/tls.ts";

vi.setConfig({ testTimeout: 60_000 });

const speed = 60;
/** Longer than any timeout for the start of a connection, shorter than those for streams and idle connections. */
const twoMinutes = 120_000 / speed;

/** A proxy whose backend takes two minutes for `/slow`. */
async function start(): Promise<string> {
  const { port: backend } = await startBackend((incoming, response) => {
    void sleep(incoming.url === "/slow" ? twoMinutes : 0).then(() => response.end("served"));
  });
  const port = await freePort();
  const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
  const all = manifests(gatewayManifest(port), backendManifest("b", backend), route);
  await startProxy({ "all.yaml": all }, [], fastClock(speed));
  return `http://127.0.0.1:${port}`;
}

describeWith(["faketime"], "a request of two minutes gets its response, and the connection serves the next one", () => {
  test("over HTTP/1.1", async () => {
    const url = await start();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const send = async (path: string): Promise<readonly [number | undefined, boolean]> => {
      const incoming = request(`${url}${path}`, { agent });
      incoming.end();
      const [response] = (await once(incoming, "response")) as [IncomingMessage];
      response.resume();
      await once(response, "end");
      return [response.statusCode, incoming.reusedSocket];
    };
    expect(await send("/slow")).toEqual([200, false]);
    expect(await send("/")).toEqual([200, true]);
  });

  test("over HTTP/2 without TLS", async () => {
    const session = connectHttp2(await start());
    onTestFinished(() => session.destroy());
    expect(await sendHttp2(session, "any.example", "/slow")).toMatchObject({ status: 200, body: "served" });
    expect(await sendHttp2(session, "any.example", "/")).toMatchObject({ status: 200, body: "served" });
    await sleep(twoMinutes);
    expect(await sendHttp2(session, "any.example", "/")).toMatchObject({ status: 200, body: "served" });
  });
});
