import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ChannelCredentials, credentials, status } from "@grpc/grpc-js";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type Certificate, TestAuthority } from "../../../../test/support/certificates.ts";
import { describeWith } from "../../../../test/support/describe-with.ts";
import { GrpcServer } from "@gatewayproxy/grpc/server/grpc-server";
import { rateLimitMethod } from "./rate-limit-method.ts";
import { ServerTls, type ServerTlsFiles } from "@gatewayproxy/grpc/server/server-tls";
import { RateLimitClient } from "./testing/grpc-clients.ts";

describeWith(["openssl"], "TLS", ({ openssl }) => {
  const directory = mkdtempSync(join(tmpdir(), "rls-tls-"));
  let first: TestAuthority;
  let second: TestAuthority;
  let server: Certificate;
  const closers: (() => void | Promise<void>)[] = [];

  beforeAll(() => {
    first = new TestAuthority(openssl, directory, "first");
    second = new TestAuthority(openssl, directory, "second");
    server = first.issue("server", "DNS:localhost");
  });
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close();
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  async function start(files: ServerTlsFiles): Promise<{ port: number; clock: FakeClock; errors: unknown[] }> {
    const errors: unknown[] = [];
    const clock = new FakeClock();
    const onError = (error: unknown) => void errors.push(error);
    const tls = new ServerTls(files, clock, onError);
    const response = { overallCode: "OK", statuses: [], responseHeaders: [] } as const;
    const grpc = new GrpcServer({
      methods: new Map([rateLimitMethod({ shouldRateLimit: () => response })]),
      clock: systemClock,
      random: () => 0,
      tls,
      onError,
      onClientError: onError,
    });
    closers.push(() => tls.close());
    closers.push(() => grpc.close(0));
    return { errors, clock, port: Number(await grpc.listen({ kind: "tcp", host: "127.0.0.1", port: 0 })) };
  }

  /** By a name, since TLS does not name servers by address. */
  function connect(port: number, creds: ChannelCredentials) {
    const client = new RateLimitClient(`127.0.0.1:${port}`, creds, { "grpc.ssl_target_name_override": "localhost" });
    closers.push(() => client.close());
    return client;
  }

  /** OK, or the status that the call got. */
  function call(port: number, creds: ChannelCredentials): Promise<number> {
    const client = connect(port, creds);
    return new Promise((resolve) => {
      client.shouldRateLimit({}, (error) => resolve(error?.code ?? status.OK));
    });
  }

  const trusting = (authority: TestAuthority, own?: Certificate) =>
    credentials.createSsl(
      Buffer.from(authority.authority.cert),
      own === undefined ? null : Buffer.from(own.key),
      own === undefined ? null : Buffer.from(own.cert),
    );

  test("serves clients that trust its certificate, and no plain text", async () => {
    const { port } = await start(server);

    expect(await call(port, trusting(first))).toBe(status.OK);
    expect(await call(port, trusting(second))).toBe(status.UNAVAILABLE);
    expect(await call(port, credentials.createInsecure())).toBe(status.UNAVAILABLE);
  });

  test("asks clients for a certificate of its authority", async () => {
    const { port } = await start({ ...server, clientCaFile: first.authority.certFile });

    expect(await call(port, trusting(first, first.issue("client")))).toBe(status.OK);
    expect(await call(port, trusting(first))).toBe(status.UNAVAILABLE);
    expect(await call(port, trusting(first, second.issue("other")))).toBe(status.UNAVAILABLE);
  });

  test.each(["DNS:envoy.local", "URI:spiffe://cluster/envoy", "IP:10.0.0.7"])(
    "lets in only who is %s where that is demanded",
    async (altName) => {
      const clientSan = altName.slice(altName.indexOf(":") + 1);
      const { port, errors } = await start({ ...server, clientCaFile: first.authority.certFile, clientSan });

      expect(await call(port, trusting(first, first.issue("named", "DNS:other", altName)))).toBe(status.OK);
      expect(await call(port, trusting(first, first.issue("other", "DNS:other")))).toBe(status.UNAVAILABLE);
      expect(String(errors.at(-1))).toContain(`required is ${clientSan}`);
    },
  );

  test("takes a new certificate up, keeps the old one while the new is broken, and drops no connection", async () => {
    const files = { certFile: join(directory, "live.crt"), keyFile: join(directory, "live.key") };
    cpSync(server.certFile, files.certFile);
    cpSync(server.keyFile, files.keyFile);
    const { port, clock, errors } = await start(files);
    const client = connect(port, trusting(first));
    const callOpen = () => new Promise((resolve) => client.shouldRateLimit({}, (error) => resolve(error?.code ?? 0)));
    expect(await callOpen()).toBe(status.OK);

    writeFileSync(files.certFile, "not a certificate");
    clock.advance(1_000);
    expect(await call(port, trusting(first))).toBe(status.OK);
    expect(String(errors.at(-1))).toContain("live.crt");

    const next = second.issue("next", "DNS:localhost");
    writeFileSync(files.certFile, next.cert);
    clock.advance(1_000);
    expect(await call(port, trusting(first))).toBe(status.OK);

    writeFileSync(files.keyFile, next.key);
    clock.advance(1_000);
    expect(await call(port, trusting(second))).toBe(status.OK);
    expect(await call(port, trusting(first))).toBe(status.UNAVAILABLE);
    expect(await callOpen()).toBe(status.OK);
  });

  test("does not start with files that cannot be used", () => {
    const onError = () => undefined;
    const wrong = { certFile: server.certFile, keyFile: first.authority.keyFile };

    expect(() => new ServerTls(wrong, systemClock, onError)).toThrow("reading TLS files");
    expect(() => new ServerTls({ ...server, keyFile: "/nowhere" }, systemClock, onError)).toThrow("/nowhere");
  });
});
