/** A port has several listening sockets, since libuv accepts one connection of each in a turn of the event loop. */
import { connect } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { gatewayManifest, startGateway } from "../support/gateway.ts";

const count = 64;

/** @returns the number of turns of the event loop in which `count` connections are accepted. */
async function turnsToAccept(listeningSockets: number): Promise<number> {
  let opened = 0;
  const observer = { connectionOpened: () => void opened++ };
  const gateway = await startGateway(gatewayManifest(), { listeningSockets, observer });
  const { hostname, port } = new URL(gateway.url());
  for (let at = 0; at < count; at++) {
    const socket = connect(Number(port), hostname).on("error", () => undefined);
    onTestFinished(() => void socket.destroy());
  }
  let turns = 0;
  for (; opened < count; turns++) await turn();
  return turns;
}

test.skipIf(process.platform !== "linux")("several connections are accepted in a turn", async () => {
  expect(await turnsToAccept(8)).toBeLessThan(count / 2);
  expect(await turnsToAccept(1)).toBeGreaterThanOrEqual(count);
});
