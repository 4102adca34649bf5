import { once } from "node:events";
import { connect as connectTcp, createServer, type AddressInfo } from "node:net";
import { connect, type ConnectionOptions } from "node:tls";
import fc from "fast-check";
import { expect, test } from "vitest";
import { extension, u16, vector } from "../../../test/support/tls-bytes.ts";
import { type ClientHello, maxHelloBytes, type NoClientHello, readClientHello } from "./client-hello.ts";

/** The first bytes that a client of node:tls sends. */
async function helloOf(options: ConnectionOptions): Promise<Buffer> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const accepted = once(server, "connection") as Promise<[import("node:net").Socket]>;
  const client = connect({ socket: connectTcp(port, "127.0.0.1"), ...options }).on("error", () => undefined);
  const [socket] = await accepted;
  const [bytes] = (await once(socket, "data")) as [Buffer];
  client.destroy();
  socket.destroy();
  server.close();
  return bytes;
}

function read(bytes: Buffer): ClientHello | NoClientHello | undefined {
  return readClientHello(bytes)?.value;
}

const nameEntry = (name: string, type = 0): Buffer =>
  Buffer.concat([Buffer.from([type]), vector(2, Buffer.from(name, "latin1"))]);
const serverName = (...entries: readonly Buffer[]): Buffer => extension(0, vector(2, ...entries));
const alpn = (...protocols: readonly string[]): Buffer =>
  extension(16, vector(2, ...protocols.map((protocol) => vector(1, Buffer.from(protocol)))));

/** The message of a ClientHello with these extensions; undefined: without the list, as old clients send it. */
function message(extensions: readonly Buffer[] | undefined): Buffer {
  const body = [
    Buffer.from([3, 3]),
    Buffer.alloc(32, 7),
    vector(1, Buffer.alloc(32, 9)),
    vector(2, u16(0x1301), u16(0xfafa)),
    vector(1, Buffer.from([0])),
    ...(extensions === undefined ? [] : [vector(2, ...extensions)]),
  ];
  return Buffer.concat([Buffer.from([1]), vector(3, ...body)]);
}

/** Puts a message in records of at most `size` bytes. */
function records(bytes: Buffer, size = 16_384): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size) {
    parts.push(Buffer.from([22, 3, 1]), vector(2, bytes.subarray(at, at + size)));
  }
  return Buffer.concat(parts);
}

const grease = extension(0x1a1a, Buffer.alloc(0));
const hello = (...extensions: readonly Buffer[]): Buffer => records(message(extensions));

test("the name and the protocols of a real client are read", async () => {
  const bytes = await helloOf({ servername: "A.Example", ALPNProtocols: ["h2", "http/1.1"] });
  expect(read(bytes)).toEqual({
    kind: "hello",
    serverName: "a.example",
    protocols: ["h2", "http/1.1"],
    isRetried: false,
  });
  expect(read(await helloOf({}))).toEqual({ kind: "hello", serverName: "", protocols: [], isRetried: false });
  const old = await helloOf({ servername: "a.example", minVersion: "TLSv1.2", maxVersion: "TLSv1.2" });
  expect(read(old)).toMatchObject({ serverName: "a.example" });
});

test("a ClientHello is read whole, wherever packets and records cut it, and nothing before its last byte decides", async () => {
  const bytes = await helloOf({ servername: "a.example", ALPNProtocols: ["h2"] });
  const whole = read(bytes);
  for (const size of [1_000, 100, 40]) {
    const cut = records(bytes.subarray(5), size);
    for (let end = 0; end < cut.length; end++) expect(readClientHello(cut.subarray(0, end))).toBeUndefined();
    expect(readClientHello(cut)).toEqual({ value: whole, consumed: 0 });
    // Early data follows.
    expect(readClientHello(Buffer.concat([cut, Buffer.from([23, 3, 3, 0, 1, 0])]))).toEqual({
      value: whole,
      consumed: 0,
    });
  }
});

test.each<[string, Buffer, Partial<ClientHello>]>([
  ["without extensions", records(message(undefined)), { serverName: "" }],
  ["without a name", hello(grease, alpn("h2")), { serverName: "", protocols: ["h2"] }],
  [
    "with values at random",
    hello(grease, serverName(nameEntry("a.example")), alpn("\u001a", "h2")),
    { serverName: "a.example" },
  ],
  ["with a final dot", hello(serverName(nameEntry("a.example."))), { serverName: "a.example" }],
  [
    "with a name of another type",
    hello(serverName(nameEntry("x", 7), nameEntry("a.example"))),
    { serverName: "a.example" },
  ],
  [
    "with Encrypted Client Hello, whose outer name counts",
    hello(serverName(nameEntry("public.example")), extension(0xfe0d, Buffer.alloc(200, 1))),
    { serverName: "public.example" },
  ],
  [
    "with padding",
    hello(serverName(nameEntry("a.example")), extension(21, Buffer.alloc(4_000))),
    { serverName: "a.example" },
  ],
])("a ClientHello %s is read", (_, bytes, expected) => {
  expect(read(bytes)).toMatchObject({ kind: "hello", ...expected });
});

test.each<[string, Buffer, Partial<NoClientHello>]>([
  ["HTTP", Buffer.from("GET / HTTP/1.1\r\n"), { isTls: false }],
  ["SSL 2", Buffer.from([0x80, 0x2e, 1, 0, 2]), { isTls: false }],
  ["an alert", Buffer.from([21, 3, 1, 0, 2, 1, 0]), { isTls: false }],
  ["another version of records", Buffer.from([22, 4, 0, 0, 5]), { isTls: false }],
  ["an empty record", Buffer.from([22, 3, 1, 0, 0]), { isTls: true }],
  ["a ServerHello", Buffer.from([22, 3, 1, 0, 4, 2, 0, 0, 0]), { isTls: true }],
  ["a ClientHello that is too long", Buffer.from([22, 3, 1, 0x40, 0, 1, 0, 0x40, 0]), { isTls: true }],
  ["a ClientHello in tiny records", records(message([grease]), 1), { isTls: true }],
  [
    "another record in the middle",
    Buffer.concat([records(message([grease]).subarray(0, 9)), Buffer.from([23])]),
    { isTls: true },
  ],
  ["two names", hello(serverName(nameEntry("a.example"), nameEntry("b.example"))), { isTls: true }],
  [
    "two lists of names",
    hello(serverName(nameEntry("a.example")), serverName(nameEntry("b.example"))),
    { isTls: true },
  ],
  ["an empty name", hello(serverName(nameEntry(""))), { isTls: true }],
  ["an empty list of names", hello(serverName()), { isTls: true }],
  ["a name with a zero byte", hello(serverName(nameEntry("a.example\0.b.example"))), { isTls: true }],
  ["a name with a line break", hello(serverName(nameEntry("a.example\nx"))), { isTls: true }],
  ["a name with a port", hello(serverName(nameEntry("a.example:443"))), { isTls: true }],
  ["a name with two final dots", hello(serverName(nameEntry("a.example.."))), { isTls: true }],
  ["a name with an empty label", hello(serverName(nameEntry("a..example"))), { isTls: true }],
  ["a name of a dot", hello(serverName(nameEntry("."))), { isTls: true }],
  ["an address in brackets", hello(serverName(nameEntry("[::1]"))), { isTls: true }],
  ["a wildcard", hello(serverName(nameEntry("*.example"))), { isTls: true }],
  ["a name that is too long", hello(serverName(nameEntry("a".repeat(256)))), { isTls: true }],
  ["a list that ends early", hello(extension(0, Buffer.from([0, 9, 0]))), { isTls: true }],
  [
    "bytes behind the extensions",
    records(withLength(Buffer.concat([message([grease]), Buffer.from([0])]))),
    { isTls: true },
  ],
])("%s is no ClientHello", (_, bytes, expected) => {
  expect(read(bytes)).toMatchObject({ kind: "invalid", ...expected });
});

/** Corrects the length of a message. */
function withLength(bytes: Buffer): Buffer {
  bytes.writeUIntBE(bytes.length - 4, 1, 3);
  return bytes;
}

test("any bytes give a result within the bound, and more bytes do not change it", () => {
  const anyHello = fc
    .tuple(
      fc.string({ minLength: 1, maxLength: 30 }),
      fc.array(fc.tuple(fc.nat(0xffff), fc.uint8Array({ maxLength: 40 })), { maxLength: 5 }),
      fc.integer({ min: 1, max: 300 }),
    )
    .map(([name, others, size]) => {
      const rest = others.map(([type, content]) => extension(type, Buffer.from(content)));
      return records(message([serverName(nameEntry(name)), ...rest]), size);
    });
  const mutated = fc
    .tuple(anyHello, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 }))
    .map(([bytes, edits]) => {
      for (const [at, value] of edits) bytes[at % bytes.length] = value;
      return bytes;
    });
  const any = fc.oneof(
    mutated,
    fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.from(bytes)),
  );
  fc.assert(
    fc.property(any, fc.nat(), (bytes, cut) => {
      const end = cut % (bytes.length + 1);
      const early = readClientHello(bytes.subarray(0, end));
      if (early !== undefined) expect(readClientHello(bytes)).toEqual(early);
    }),
    { numRuns: 500 },
  );
  // 64 full records are more than any ClientHello.
  const most = Buffer.concat(
    Array.from({ length: 64 }, () => Buffer.concat([Buffer.from([22, 3, 1, 1, 4]), Buffer.alloc(260, 1)])),
  );
  expect(most.length).toBeGreaterThan(maxHelloBytes);
  expect(readClientHello(most)).toBeDefined();
});
