/**
 * The address rules of a cluster hold for relayed connections and sessions: routes of TLS, TCP and UDP reach neither
 * the machine of the proxy nor its metadata service, whatever the Backend or the EndpointSlice says.
 */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { connect as connectTls } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import type { KubeObject } from "../../proxy/src/kube/object.ts";
import { collectionPaths } from "../../proxy/src/source/kubernetes/watched-kinds.ts";
import { freePort } from "../support/free-port.ts";
import { startObjectApiServer } from "../support/object-api-server.ts";
import { spawnClusterProxy } from "../support/proxy-process.ts";
import { gatewayApi } from "../support/api-versions.ts";

/** A TCP and a UDP server on one port of loopback, which count what reaches them. */
async function startVictim() {
  const reached: string[] = [];
  const server = createServer((socket) => {
    reached.push("TCP");
    socket.destroy();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const socket = createSocket("udp4", () => reached.push("UDP")).bind(port, "127.0.0.1");
  await once(socket, "listening");
  onTestFinished(() => void socket.close());
  return { port, reached };
}

test("backends on loopback and link-local addresses are not called, unless a setting permits it", {
  timeout: 120_000,
}, async () => {
  const { port: victim, reached } = await startVictim();
  const api = await startObjectApiServer();
  const put = (kind: string, apiVersion: string, name: string, fields: object) => {
    const object: KubeObject = { apiVersion, kind, metadata: { namespace: "ann", name }, ...fields };
    api.put(collectionPaths(kind as never)[0], object);
  };
  const listeners = [
    { name: "named", port: await freePort(), protocol: "TCP" },
    { name: "loopback", port: await freePort(), protocol: "TCP" },
    { name: "metadata", port: await freePort(), protocol: "TCP" },
    { name: "tls", port: await freePort(), protocol: "TLS", tls: { mode: "Passthrough" } },
    { name: "udp", port: await freePort(), protocol: "UDP" },
  ];
  put("Gateway", gatewayApi, "web", { spec: { gatewayClassName: "gateway-proxy", listeners } });
  put("Backend", "gatewayproxy.dev/v1alpha1", "named", { spec: { static: { host: "localhost", port: victim } } });
  const addresses = { loopback: "127.0.0.1", metadata: "169.254.169.254", tls: "127.0.0.1", udp: "127.0.0.1" };
  for (const [name, address] of Object.entries(addresses)) {
    const protocol = name === "udp" ? "UDP" : "TCP";
    put("Service", "v1", name, { spec: { ports: [{ port: 80, protocol }] } });
    put("EndpointSlice", "discovery.k8s.io/v1", name, {
      metadata: { namespace: "ann", name, labels: { "kubernetes.io/service-name": name } },
      ...{ addressType: "IPv4", ports: [{ port: victim, protocol }] },
      endpoints: [{ addresses: [address], conditions: { ready: true } }],
    });
  }
  const routeTo = (kind: string, name: string, backend: object) => {
    const hostnames = kind === "TLSRoute" ? { hostnames: ["db.example.com"] } : {};
    const parentRefs = [{ name: "web", sectionName: name }];
    put(kind, gatewayApi, name, { spec: { parentRefs, ...hostnames, rules: [{ backendRefs: [backend] }] } });
  };
  routeTo("TCPRoute", "named", { group: "gatewayproxy.dev", kind: "Backend", name: "named" });
  for (const name of ["loopback", "metadata"]) routeTo("TCPRoute", name, { name, port: 80 });
  routeTo("TLSRoute", "tls", { name: "tls", port: 80 });
  routeTo("UDPRoute", "udp", { name: "udp", port: 80 });

  const portOf = (name: string): number => listeners.find((listener) => listener.name === name)?.port ?? 0;
  const start = async (...args: readonly string[]) => {
    const proxy = await spawnClusterProxy(api.kubeconfig, "ann/web", ["--listen-address", "127.0.0.1", ...args]);
    await proxy.logged(({ msg }) => msg === "ready");
    return proxy;
  };
  const closeOf = async (port: number) => {
    const client = connect(port, "127.0.0.1").on("error", () => undefined);
    client.end("hello");
    await new Promise((resolve) => void client.resume().once("close", resolve));
  };
  const proxy = await start();
  const endOf = async (route: string) => {
    const line = await proxy.logged((each) => each["module"] === "proxy::access" && each["route"] === route);
    return line["reason"];
  };
  for (const name of ["named", "loopback", "metadata"]) {
    await closeOf(portOf(name));
    expect(await endOf(`TCPRoute/ann/${name}`), name).toBe("InvalidBackend");
  }
  const tls = connectTls({ port: portOf("tls"), host: "127.0.0.1", servername: "db.example.com" });
  await once(tls, "error");
  expect(await endOf("TLSRoute/ann/tls")).toBe("InvalidBackend");
  const udp = createSocket("udp4");
  onTestFinished(() => void udp.close());
  udp.send("hello", portOf("udp"), "127.0.0.1");
  const metrics = async () => (await fetch(`${proxy.stats}/metrics`)).text();
  const dropped = /^gateway_proxy_stream_datagrams_dropped_total\{[^}]*reason="InvalidBackend"[^}]*\} 1$/m;
  await expect.poll(metrics, { timeout: 10_000 }).toMatch(dropped);
  expect(reached).toEqual([]);

  // The same objects reach it if the operator permits loopback.
  proxy.kill("SIGKILL");
  await proxy.exited;
  await start("--allow-backend-address", `127.0.0.1:${victim}`);
  await closeOf(portOf("loopback"));
  udp.send("hello", portOf("udp"), "127.0.0.1");
  await expect.poll(() => [...new Set(reached)].sort()).toEqual(["TCP", "UDP"]);
});
