/**
 * A WebSocket through a Backend with several providers: it moves until a provider has switched protocols, and not
 * after.
 */
import { once } from "node:events";
import { expect, test } from "vitest";
import { freePort } from "../support/free-port.ts";
import { gatewayManifest, manifests, routeManifest, startGateway } from "../support/gateway.ts";
import { requestUpgrade, startUpgradeBackend } from "../support/upgrades.ts";

const provider = (name: string, port: number) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ${name}, namespace: default }
spec: { ai: { provider: { openaiCompatible: {} }, host: 127.0.0.1, port: ${port}, upgrades: Allow } }
`;

test("a switched connection outlives the timeouts of failover", async () => {
  const switching = await startUpgradeBackend((_request, socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
    socket.on("data", (bytes: Buffer) => socket.write(bytes)).on("end", () => socket.end());
  });
  const chat = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: chat, namespace: default }
spec:
  ai:
    providers: [{ backendRef: { name: a } }, { backendRef: { name: b }, priority: 1 }, { backendRef: { name: c }, priority: 2 }]
    failover: { firstByteTimeout: 5s }
`;
  const route = routeManifest("r", ["backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: chat }]"]);
  const gateway = await startGateway(
    manifests(
      ...[gatewayManifest(), chat, route],
      ...[provider("a", await freePort()), provider("b", switching.port), provider("c", switching.port)],
    ),
  );
  const { socket, head } = await requestUpgrade(gateway.url(), "websocket");
  expect(head).toContain("101 Switching Protocols");
  gateway.clock.advance(60_000);
  socket.write("still there");
  const [echoed] = (await once(socket, "data")) as [Buffer];
  expect(echoed.toString()).toBe("still there");
  expect(switching.requests).toHaveLength(1);
  const ended = gateway.nextRecord();
  socket.destroy();
  expect(await ended).toMatchObject({
    provider: "Backend/default/b",
    failovers: [{ provider: "Backend/default/a", cause: "connect" }],
  });
});
