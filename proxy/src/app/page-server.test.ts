import { connect, type Socket } from "node:net";
import { once } from "node:events";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { throttle } from "@gatewayproxy/runtime/throttle";
import { expect, onTestFinished, test } from "vitest";
import { openPageServer } from "./page-server.ts";

/** A page that counts how often it was rendered. */
async function start() {
  let rendered = 0;
  const page = () => Promise.resolve({ status: 200, contentType: "text/plain", body: `${++rendered}\n` });
  const render = throttle(page, new FakeClock());
  const server = await openPageServer({ host: "127.0.0.1", port: 0 }, "/page", render);
  onTestFinished(() => server.close());
  const { host, port } = server.address;
  const open = async (): Promise<Socket> => {
    const socket = connect(port, host);
    onTestFinished(() => void socket.destroy());
    await once(socket, "connect");
    return socket;
  };
  return { url: `http://${host}:${port}`, open, rendered: () => rendered };
}

test("a connection gets one response after the other", async () => {
  const { url } = await start();
  expect(await (await fetch(`${url}/page`)).text()).toBe("1\n");
  expect(await (await fetch(`${url}/page`)).text()).toBe("2\n");
});

test("pipelined requests end their connection, after one rendering", async () => {
  const { url, open, rendered } = await start();
  const socket = await open();
  socket.resume();
  socket.write("GET /page HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2_000));
  // The end may arrive as a reset.
  await new Promise<void>((resolve) => socket.on("error", () => undefined).once("close", () => resolve()));
  expect(rendered()).toBeLessThanOrEqual(1);
  expect((await fetch(`${url}/page`)).status).toBe(200);
});

test("a client that opens connections without end replaces its own, and others get responses", async () => {
  const { url, open } = await start();
  const held = await Promise.all(Array.from({ length: 300 }, () => open()));
  const own = held.map((socket) =>
    once(
      socket.on("error", () => undefined),
      "close",
    ),
  );
  await Promise.race(own);
  // All are of one address here, so a further one is rejected; without them it is accepted.
  for (const socket of held) socket.destroy();
  await Promise.all(own);
  await expect.poll(() => fetch(`${url}/page`).then(({ status }) => status)).toBe(200);
});
