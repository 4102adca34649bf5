/** Finds the process that uses a port that a demo needs. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { takenPlaces } from "../../scripts/demo/ports.ts";

test.runIf(process.platform === "linux")(
  "names the process that listens on the port, or has a connection from it",
  async () => {
    const server = createServer((socket) => socket.resume()).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const client = connect(port, "127.0.0.1");
    onTestFinished(() => void client.destroy());
    await once(client, "connect");
    const places = [port, client.localPort ?? 0].map((each) => ({
      address: "127.0.0.1",
      port: each,
      use: "the gateway",
    }));
    const taken = await takenPlaces(places);
    expect(taken).toHaveLength(2);
    for (const line of taken) expect(line).toContain(`, for the gateway, is taken by process ${process.pid} (`);
  },
);
