/** `ClientHello.isRetried` says for which ClientHellos OpenSSL asks for a second one. */
import { createECDH, generateKeyPairSync, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readClientHello } from "../../proxy/src/listen/client-hello.ts";
import { TlsTermination } from "../../proxy/src/listen/tls-termination.ts";
import { type Certificate, TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { extension, u16, vector } from "../support/tls-bytes.ts";

const ecdh = (curve: string): Buffer => createECDH(curve).generateKeys();
const mlKem768 = generateKeyPairSync("ml-kem-768").publicKey.export({ format: "der", type: "spki" }).subarray(-1184);
/** A valid key of each group that OpenSSL knows, and of some that it does not. */
const keys = new Map<number, Buffer>([
  [0x11ec, Buffer.concat([mlKem768, randomBytes(32)])],
  [0x1d, randomBytes(32)],
  [0x17, ecdh("prime256v1")],
  [0x1e, randomBytes(56)],
  [0x18, ecdh("secp384r1")],
  [0x19, ecdh("secp521r1")],
  [0x100, Buffer.concat([Buffer.of(0), randomBytes(255)])],
  [0x101, Buffer.concat([Buffer.of(0), randomBytes(383)])],
  // SecP256r1MLKEM768, which is not offered; ffdhe4096, a group of TLS 1.2, GREASE.
  [0x11eb, randomBytes(1249)],
  [0x102, Buffer.concat([Buffer.of(0), randomBytes(511)])],
  [0x16, randomBytes(33)],
  [0x1a1a, Buffer.of(0)],
]);
const groups = [...keys.keys()];

interface Offer {
  readonly supported: readonly number[];
  readonly shares: readonly number[];
  readonly versions: readonly number[] | undefined;
  readonly hasShares: boolean;
}

function helloOf({ supported, shares, versions, hasShares }: Offer): Buffer {
  const keyShares = shares.map((group) => Buffer.concat([u16(group), vector(2, keys.get(group) ?? Buffer.of(1))]));
  const body = [
    ...[Buffer.from([3, 3]), randomBytes(32), vector(1, randomBytes(32))],
    ...[vector(2, u16(0x1301), u16(0xc02b)), vector(1, Buffer.from([0]))],
    vector(
      2,
      extension(10, vector(2, ...supported.map(u16))),
      extension(13, vector(2, u16(0x0403), u16(0x0804))),
      ...(versions === undefined ? [] : [extension(43, vector(1, ...versions.map(u16)))]),
      ...(hasShares ? [extension(51, vector(2, ...keyShares))] : []),
    ),
  ];
  const message = Buffer.concat([Buffer.from([1]), vector(3, ...body)]);
  return Buffer.concat([Buffer.from([22, 3, 1]), vector(2, message)]);
}

const offers = fc
  .record({
    supported: fc.shuffledSubarray(groups, { minLength: 1 }),
    shares: fc.shuffledSubarray(groups, { maxLength: 3 }),
    keepsRule: fc.boolean(),
    versions: fc.option(fc.shuffledSubarray([0x0304, 0x0303, 0x0a0a], { minLength: 1 }), { nil: undefined }),
    hasShares: fc.integer({ max: 9, min: 0 }).map((value) => value > 0),
  })
  // RFC 8446 §4.2.8: the keys are of supported groups, in their order.
  .map(({ keepsRule, ...offer }) => ({
    ...offer,
    shares: keepsRule ? offer.supported.filter((group) => offer.shares.includes(group)) : offer.shares,
  }));

/** The random value of a HelloRetryRequest (RFC 8446 §4.1.3). */
const retryRandom = Buffer.from("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c", "hex");

describeWith(["openssl"], "a second ClientHello", ({ openssl }) => {
  let directory: string;
  let certificate: Certificate;

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "tls-retries-"));
    certificate = new TestAuthority(openssl, directory, "authority").issue("server", "DNS:a.example");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  test("is foreseen by the first one", async () => {
    const { cert: chain, key: secret } = certificate;
    const certificates = [{ source: "default/c", chain, privateKey: { secret }, hostnames: ["a.example"] }];
    const tls = { certificates, minVersion: "TLSv1.2", maxVersion: "TLSv1.3", protocols: [] } as const;
    const ignore = (): void => undefined;
    const termination = new TlsTermination([{ key: "l", tls }], {
      onSecure: (socket) => socket.destroy(),
      onRejected: ignore,
      onFault: (error) => {
        throw error;
      },
      onChosen: (sign) => sign(),
    });
    const server = createServer((socket) => termination.terminate(socket.on("error", ignore))).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const counts = { alert: 0, retry: 0, hello: 0 };
    const outcomeOf = async (hello: Buffer): Promise<keyof typeof counts> => {
      const socket = connect(port, "127.0.0.1").on("error", ignore);
      socket.write(hello);
      const [bytes] = (await once(socket, "data")) as [Buffer];
      socket.destroy();
      if (bytes[0] !== 22) return "alert";
      return bytes.includes(retryRandom) ? "retry" : "hello";
    };
    await fc.assert(
      fc.asyncProperty(offers, async (offer) => {
        const hello = helloOf(offer);
        const read = readClientHello(hello)?.value;
        const outcome = await outcomeOf(hello);
        counts[outcome]++;
        if (outcome !== "alert") expect(read).toMatchObject({ kind: "hello", isRetried: outcome === "retry" });
      }),
      { numRuns: 300 },
    );
    server.close();
    expect(Math.min(...Object.values(counts))).toBeGreaterThan(10);
  });
});
