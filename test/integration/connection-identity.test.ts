/**
 * Connections are distinguished by both of their ends: a client may have one address and port at several addresses of
 * the gateway.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect as connectTcp, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Duplex } from "node:stream";
import { connect, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import type { ListenerTls } from "../../proxy/src/ir/snapshot.ts";
import { type Certificate, TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import {
  startStreams,
  startTcp,
  streamBackend,
  streamBind,
  streamListener,
  streamRoute,
} from "../support/stream-gateway.ts";

describeWith(["openssl"], "two connections of one client address and port", ({ openssl }) => {
  let directory: string;
  let ca: string;
  let certificate: Certificate;

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "connection-identity-"));
    const authority = new TestAuthority(openssl, directory, "authority");
    ca = authority.authority.cert;
    certificate = authority.issue("gateway", "DNS:gateway.example");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  function tls(): ListenerTls {
    const { cert, key } = certificate;
    const own = { source: "default/c", chain: cert, privateKey: { secret: key }, hostnames: ["*.example"] };
    return { certificates: [own], minVersion: "TLSv1.2", maxVersion: "TLSv1.3", protocols: [] };
  }

  /** Begins a handshake, and holds back all that the client sends after its ClientHello. */
  async function begin(socket: Socket, servername: string): Promise<{ finish: () => Promise<TLSSocket> }> {
    const held: (() => void)[] = [];
    let sent = 0;
    let isHeld = true;
    const wire = new Duplex({
      read: () => undefined,
      write(chunk: Buffer, _encoding, done) {
        const send = (): void => void socket.write(chunk, done);
        if (sent++ === 0 || !isHeld) send();
        else held.push(send);
      },
    });
    socket.on("data", (chunk: Buffer) => wire.push(chunk));
    socket.once("close", () => wire.destroy());
    const client = connect({ socket: wire, servername, ca, checkServerIdentity: () => undefined });
    const secured = once(client, "secureConnect");
    // The gateway has responded, so it knows the connection.
    await once(socket, "data");
    return {
      finish: async () => {
        isHeld = false;
        for (const send of held.splice(0)) send();
        await secured;
        return client;
      },
    };
  }

  test("at two addresses of the gateway are two connections, each with its own route", async () => {
    const startSaying = (text: string) => startTcp((socket) => void socket.write(text));
    const backends = [
      streamBackend("one", [(await startSaying("one")).port]),
      streamBackend("two", [(await startSaying("two")).port]),
    ];
    const routes = backends.map((backend) =>
      streamRoute(backend.name, [backend], { kind: "TLSRoute", hostnames: [`${backend.name}.example`] }),
    );
    const { port: bindPort, listeners, streams } = streamBind([streamListener("TLS", routes, { tls: tls() })]);
    const gateway = await startStreams({
      binds: [{ port: bindPort, listeners, ...(streams && { streams }) }],
      backends,
    });
    const port = gateway.dataPlane.portOf(undefined, bindPort) ?? 0;

    const open = async (host: string, localPort: number): Promise<Socket> => {
      const socket = connectTcp({ host, port, localAddress: "127.0.0.1", localPort });
      onTestFinished(() => void socket.destroy());
      await once(socket, "connect");
      return socket.on("error", () => undefined);
    };
    const first = await open("127.0.0.1", 0);
    const one = await begin(first, "one.example");
    const two = await begin(await open("127.0.0.2", first.localPort ?? 0), "two.example");
    const textOf = async (client: TLSSocket): Promise<string> => {
      const [text] = (await once(client, "data")) as [Buffer];
      return text.toString();
    };
    const oneClient = await one.finish();
    expect(await textOf(oneClient)).toBe("one");
    expect(await textOf(await two.finish())).toBe("two");
  });
});
