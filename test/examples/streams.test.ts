/**
 * examples/tcp, examples/tls and examples/udp: the servers and clients that their pages name, or such with the same
 * protocol.
 */
import { createSocket } from "node:dgram";
import { Resolver } from "node:dns/promises";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls, createServer as createTlsServer } from "node:tls";
import { createClient } from "@redis/client";
import { expect, onTestFinished, test } from "vitest";
import { TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { freePort } from "../support/free-port.ts";
import { startProxy } from "../support/proxy-process.ts";
import { startRedis } from "../support/redis-server.ts";

/**
 * Starts the example, and returns its port.
 *
 * @param listener, backend the ports in the example.
 * @param port the server's
 */
async function serve(example: string, listener: number, backend: number, port: number): Promise<number> {
  const own = await freePort();
  const text = readFileSync(join(import.meta.dirname, "../../examples", example, "gateway.yaml"), "utf8")
    .replace(`port: ${listener}`, `port: ${own}`)
    .replace(`port: ${backend} }`, `port: ${port} }`);
  await startProxy({ "gateway.yaml": text }, ["--listen-address", "127.0.0.1"]);
  return own;
}

describeWith(["redis-server"], "examples/tcp", ({ "redis-server": program }) => {
  test("Redis responds, and a client has ten connections", async () => {
    const redis = await startRedis(program);
    onTestFinished(() => redis.close());
    const port = await serve("tcp", 6_380, 6_379, redis.port);
    const clients = Array.from({ length: 10 }, () =>
      createClient({ socket: { host: "127.0.0.1", port, reconnectStrategy: false } }).on("error", () => undefined),
    );
    onTestFinished(() => {
      for (const client of clients) client.destroy();
    });
    for (const client of clients) {
      await client.connect();
      expect(await client.ping()).toBe("PONG");
    }
    const eleventh = createClient({ socket: { host: "127.0.0.1", port, reconnectStrategy: false } });
    await expect(eleventh.on("error", () => undefined).connect()).rejects.toThrow();
  });
});

describeWith(["openssl"], "examples/tls", ({ openssl }) => {
  test("the server of the name gets the connection, and no other name is passed on", async () => {
    const folder = mkdtempSync(join(tmpdir(), "example-tls-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const certificate = new TestAuthority(openssl, folder, "authority").issue("orders", "DNS:orders.example.com");
    const server = createTlsServer({ cert: certificate.cert, key: certificate.key }, (socket) => socket.end("orders"));
    server.on("tlsClientError", () => undefined).listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => void server.close());
    const port = await serve("tls", 8_443, 9_443, (server.address() as AddressInfo).port);
    const textOf = (servername: string): Promise<string> =>
      new Promise((resolve, reject) => {
        let text = "";
        connectTls({ host: "127.0.0.1", port, servername, rejectUnauthorized: false })
          .on("error", reject)
          .on("data", (bytes: Buffer) => (text += bytes.toString()))
          .on("end", () => resolve(text));
      });
    expect(await textOf("orders.example.com")).toBe("orders");
    await expect(textOf("payments.example.com")).rejects.toThrow();
  });
});

test("examples/udp: a DNS server responds to queries", async () => {
  const server = createSocket("udp4");
  server.on("message", (query, { port, address }) => {
    // The header with one record (RFC 1035 §4.1.1), the question, and an A record that refers to its name.
    const question = query.subarray(12, query.indexOf(0, 12) + 5);
    const header = Buffer.from([query[0] ?? 0, query[1] ?? 0, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
    server.send(Buffer.concat([header, question, record]), port, address);
  });
  server.bind(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const port = await serve("udp", 5_353, 53, server.address().port);
  const resolver = new Resolver({ timeout: 10_000, tries: 1 });
  resolver.setServers([`127.0.0.1:${port}`]);
  expect(await resolver.resolve4("example.com")).toEqual(["192.0.2.7"]);
});
