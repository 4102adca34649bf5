/** A client that begins many TLS handshakes at once does not delay those of others, nor what they send, for long. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect as connectTcp, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { connect, type ConnectionOptions, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type Certificate, TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { manifests, routeManifest, startGateway, type TestGateway } from "../support/gateway.ts";
import { recordHellos } from "../support/recorded-hellos.ts";
import { sendTwoHellos } from "../support/two-hellos.ts";
import {
  authorityManifest,
  openTls,
  sendOn,
  tlsGatewayManifest,
  tlsListener,
  tlsSecretManifest,
} from "../support/tls.ts";

const many = 300;
/** Handshakes of a client in progress whose next bytes may be costly, and others that began before a byte was read. */
const [places, unread] = [8, 16];

describeWith(["openssl"], "many TLS handshakes of one client", ({ openssl }) => {
  let directory: string;
  let authority: TestAuthority;
  let server: Certificate;

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "tls-turns-"));
    authority = new TestAuthority(openssl, directory, "authority");
    server = authority.issueRsa("server", "DNS:a.example");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  async function start(spec = "") {
    let [opened, closed] = [0, 0];
    const gateway = await startGateway(
      manifests(
        tlsGatewayManifest([tlsListener("https", ["server"])], spec),
        tlsSecretManifest("server", server),
        authorityManifest("authority", authority.authority),
        routeManifest("r", ["{ filters: [{ type: RequestRedirect, requestRedirect: { hostname: b } }] }"]),
      ),
      { observer: { connectionOpened: () => void opened++, connectionClosed: () => void closed++ } },
    );
    const client = { ca: authority.authority.cert, servername: "a.example" };
    const open = (localAddress: string) => openFrom(gateway, localAddress);
    /** Opens connections of one client that send nothing yet. */
    const openMany = async (): Promise<readonly Replayer[]> => {
      const replayers = Array.from({ length: many }, () => new Replayer(open("127.0.0.2")));
      await expect.poll(() => opened).toBeGreaterThanOrEqual(many);
      // Until they are read.
      for (let turns = 0; turns < 10; turns++) await turn();
      return replayers;
    };
    /** A handshake on a connection that is open. */
    const secure = async (localAddress: string, options: ConnectionOptions = {}): Promise<TLSSocket> => {
      const socket = open(localAddress);
      await once(socket, "connect");
      const tls = connect({ socket, ...client, ...options });
      onTestFinished(() => void tls.destroy());
      return tls;
    };
    return { gateway, client, open, openMany, secure, closed: () => closed };
  }

  test("a request and a handshake of others are served after a few of them", async () => {
    const { gateway, client, openMany, secure } = await start();
    const established = await openTls(gateway, client);
    expect((await sendOn(established, "a.example")).status).toBe(302);
    const { first } = await recordHellos(server, client);
    const replayers = await openMany();
    for (const replayer of replayers) replayer.send(first);
    const [byRequest, byHandshake] = await Promise.all([
      sendOn(established, "a.example").then(() => countReplied(replayers)),
      secure("127.0.0.3").then(async (socket) => {
        await once(socket, "secureConnect");
        return countReplied(replayers);
      }),
    ]);
    expect(byRequest).toBeLessThan(many / 2);
    expect(byHandshake).toBeLessThan(many / 2);
    await expect.poll(() => countReplied(replayers)).toBe(many);
  });

  const retried = { ecdhCurve: "*P-521:X25519" };

  test("few may owe a second ClientHello, and one that stalls makes room after a second", async () => {
    const { gateway, client, openMany, secure } = await start();
    const { first, second } = await recordHellos(server, { ...client, ...retried });
    expect(second).not.toHaveLength(0);
    const replayers = await openMany();
    for (const replayer of replayers) replayer.send(first);
    await expect.poll(() => countReplied(replayers)).toBe(places + unread);
    // One that needs none does not wait for them.
    await once(await secure("127.0.0.3"), "secureConnect");
    await once(await secure("127.0.0.3", retried), "secureConnect");
    expect(countReplied(replayers)).toBe(places + unread);
    gateway.clock.advance(1_000);
    await expect.poll(() => countReplied(replayers)).toBe(2 * places + unread);
    // Those that send it make room at once, though their handshake is never done.
    for (const replayer of replayers) replayer.replyWith(second);
    await expect.poll(() => replayers.filter(({ received }) => received > 500).length).toBeGreaterThan(0);
  });

  test("few may owe a client certificate", async () => {
    const { gateway, client, openMany, secure } = await start(
      "tls: { frontend: { default: { validation: { caCertificateRefs: [{ group: '', kind: ConfigMap, name: authority }] } } } }",
    );
    const { first } = await recordHellos(server, client);
    const replayers = await openMany();
    for (const replayer of replayers) replayer.send(first);
    await expect.poll(() => countReplied(replayers)).toBe(places);
    const { cert, key } = authority.issue("client", "DNS:client");
    expect((await sendOn(await secure("127.0.0.3", { cert, key }), "a.example")).status).toBe(302);
    expect(countReplied(replayers)).toBe(places);
    gateway.clock.advance(1_000);
    await expect.poll(() => countReplied(replayers)).toBe(2 * places);
  });

  test("a connection that changes its keys without end is closed", async () => {
    const { open, closed } = await start();
    const sendUpdates = async (count: number): Promise<void> => {
      const socket = open("127.0.0.2").on("error", () => undefined);
      const keys = await sendTwoHellos(socket, ["a.example", "a.example"]);
      socket.write(Buffer.concat(Array.from({ length: count }, () => keys.update())));
    };
    await sendUpdates(20);
    await sendUpdates(200);
    await expect.poll(closed).toBe(1);
    await sendUpdates(200);
    await expect.poll(closed).toBe(2);
  });

  test("a client cannot renegotiate", async () => {
    const { open, client } = await start();
    const socket = open("127.0.0.2");
    const tls = connect({ socket, ...client, maxVersion: "TLSv1.2" }).on("error", () => undefined);
    await once(tls, "secureConnect");
    const before = socket.bytesRead;
    tls.renegotiate({}, () => undefined);
    await expect.poll(() => socket.bytesRead).toBeGreaterThan(before);
    // An alert, and no certificate.
    expect(socket.bytesRead - before).toBeLessThan(100);
    tls.destroy();
  });

  test("those whose ClientHello is not whole in time are closed", async () => {
    const { gateway, client, openMany } = await start();
    const { first } = await recordHellos(server, { ...client, ...retried });
    const replayers = await openMany();
    for (const replayer of replayers) replayer.send(first.subarray(0, 100));
    for (let turns = 0; turns < 10; turns++) await turn();
    expect(replayers.filter(({ isClosed }) => isClosed)).toHaveLength(0);
    gateway.clock.advance(10_000);
    await expect.poll(() => replayers.filter(({ isClosed }) => isClosed).length).toBe(many - unread);
  });
});

/** Opens a connection from an address of the loopback network, each of which is a client. */
function openFrom(gateway: TestGateway, localAddress: string): Socket {
  const socket = connectTcp({ host: "127.0.0.1", port: Number(new URL(gateway.url(443)).port), localAddress });
  onTestFinished(() => void socket.destroy());
  return socket;
}

function countReplied(replayers: readonly Replayer[]): number {
  return replayers.filter(({ received }) => received > 0).length;
}

/** Sends the recorded bytes of another client, so that its handshakes are never done. */
class Replayer {
  received = 0;
  isClosed = false;
  readonly #socket: Socket;
  #next: Buffer | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("error", () => undefined).on("close", () => (this.isClosed = true));
    socket.on("data", (chunk: Buffer) => {
      this.received += chunk.length;
      this.#sendNext();
    });
  }

  send(bytes: Buffer): void {
    this.#socket.write(bytes);
  }

  /** Sends these bytes once the server has sent something. */
  replyWith(bytes: Buffer): void {
    this.#next = bytes;
    if (this.received > 0) this.#sendNext();
  }

  #sendNext(): void {
    if (this.#next !== undefined && !this.isClosed) this.#socket.write(this.#next);
    this.#next = undefined;
  }
}
