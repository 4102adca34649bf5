/**
 * Server names and protocols of TLS clients, unusual ones included: the gateway has no internal error, and other
 * clients are served.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import fc from "fast-check";
import { afterAll, beforeAll, expect } from "vitest";
import { respondWith, startBackend } from "../../support/backend.ts";
import { type Certificate, TestAuthority } from "../../support/certificates.ts";
import { describeWith } from "../../support/describe-with.ts";
import { backendManifest, backendRef, manifests, routeManifest, startGateway } from "../../support/gateway.ts";
import { sendTls, tlsGatewayManifest, tlsListener, tlsSecretManifest } from "../../support/tls.ts";
import { clientHello, type HelloNames } from "../support/client-hello.ts";
import { fuzz, type FuzzCase } from "../support/fuzz.ts";
import { perTest } from "../support/per-test.ts";

const label = "a".repeat(63);
/** 255 bytes, the maximum that OpenSSL accepts. */
const longest = `${label}.${label}.${label}.${label}`;

const serverName = fc.oneof(
  fc.constantFrom(
    ...["", "a.example", "A.EXAMPLE", "a.example.", "a.example..", ".", "..", ".a.example", "x.wild.example"],
    ...["wild.example", ".wild.example", "*.wild.example", "a.example\0", "a.example\0.wild.example", "\0", "a b"],
    ...["127.0.0.1", "::1", "[::1]", "a.example:443", "xn--", "é.example", "\u00ff\u00fe", "__proto__", "constructor"],
    ...[longest, `${longest}a`, `${"a.".repeat(120)}wild.example`, ".".repeat(255), "x".repeat(16_000)],
  ),
  fc.string({ maxLength: 300, unit: "binary" }).map((text) => Buffer.from(text).toString("latin1")),
);
const protocol = fc.oneof(
  fc.constantFrom("h2", "http/1.1", "http/1.0", "H2", "h2c", "", "\0", "spdy/3", "acme-tls/1", "h".repeat(255)),
  fc.string({ maxLength: 20, unit: "binary" }).map((text) => Buffer.from(text).toString("latin1")),
);

interface Hello extends HelloNames {
  /** The bytes of a single message, or a whole handshake by node:tls, which sends valid ones only. */
  readonly kind: "bytes" | "handshake";
  /** The number of bytes of the message that are sent. */
  readonly cutAt: number;
  readonly [name: string]: FuzzCase | undefined;
}

const hello: fc.Arbitrary<Hello> = fc.record({
  kind: fc.constantFrom("bytes", "handshake"),
  serverNames: fc.option(fc.array(serverName, { minLength: 1, maxLength: 2 }), { nil: undefined }),
  protocols: fc.option(fc.array(protocol, { maxLength: 40 }), { nil: undefined }),
  cutAt: fc.oneof({ weight: 9, arbitrary: fc.constant(100_000) }, fc.nat(300)),
});

/** After this time without bytes the gateway is assumed to wait for the rest of a message. */
const quietMs = 30;

/** Sends, and resolves when the gateway responds, closes or is silent. */
function send(port: number, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(bytes));
    socket.setTimeout(quietMs, () => void socket.destroy());
    socket.on("data", () => void socket.destroy());
    socket.on("error", () => undefined);
    socket.on("close", () => resolve());
  });
}

/** Resolves when the handshake has ended, with or without an error. */
function shakeHands(port: number, { serverNames, protocols }: Hello): Promise<void> {
  return new Promise((resolve) => {
    const [name] = serverNames ?? [];
    // OpenSSL rejects other names, and the error that it leaves behind would appear on another connection.
    const isTaken = name !== undefined && Buffer.byteLength(name) <= 255 && !name.startsWith("\0");
    const servername = isTaken ? name : undefined;
    const options = {
      ...(servername !== undefined && { servername }),
      ...(protocols !== undefined && { ALPNProtocols: [...protocols] }),
    };
    try {
      const socket = connectTls({ host: "127.0.0.1", port, rejectUnauthorized: false, ...options }, () =>
        socket.destroy(),
      );
      socket.on("error", () => undefined);
      socket.on("close", () => resolve());
    } catch {
      // A name or a protocol that node:tls does not send.
      resolve();
    }
  });
}

describeWith(["openssl"], "TLS", ({ openssl }) => {
  let directory: string;
  let authority: TestAuthority;
  let certificate: Certificate;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "tls-hellos-"));
    authority = new TestAuthority(openssl, directory, "authority");
    certificate = authority.issue("a", "DNS:a.example", "DNS:*.wild.example");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  const world = perTest(async () => {
    const { port } = await startBackend(respondWith(200, "ok"));
    const listeners = [
      tlsListener("exact", ["a"], "hostname: a.example"),
      tlsListener("wildcard", ["a"], 'hostname: "*.wild.example"'),
    ];
    const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
    const rest = [tlsSecretManifest("a", certificate), backendManifest("b", port), route];
    return startGateway(manifests(tlsGatewayManifest(listeners), ...rest));
  });

  fuzz("tls-hellos", {
    prepare: world,
    arbitrary: hello,
    async check(value) {
      const gateway = await world();
      const port = Number(new URL(gateway.url(443)).port);
      if (value.kind === "bytes") await send(port, clientHello(value).subarray(0, value.cutAt));
      else await shakeHands(port, value);
      const other = await sendTls(gateway, "a.example", { ca: authority.authority.cert });
      expect([other.status, other.body, gateway.internalErrors]).toEqual([200, "ok", []]);
    },
  });
});
