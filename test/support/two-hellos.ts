/**
 * A client of TLS 1.3 that names another server in its second ClientHello, which a server asks for if it cannot use the
 * keys of the first one (HelloRetryRequest, RFC 8446 §4.1.4). It speaks P-256 with AES-128-GCM, verifies nothing, and
 * has no certificate.
 */
import { createCipheriv, createDecipheriv, createECDH, createHash, createHmac, type ECDH } from "node:crypto";
import type { Socket } from "node:net";
import { extension, u16, vector } from "./tls-bytes.ts";

const sha256 = (...parts: readonly Buffer[]): Buffer => createHash("sha256").update(Buffer.concat(parts)).digest();
const hmac = (key: Buffer, data: Buffer): Buffer => createHmac("sha256", key).update(data).digest();

const p256 = 0x0017;
const [clientHello, serverHello, certificateRequest, finished, keyUpdate] = [1, 2, 13, 20, 24];
const [changeCipherSpec, handshakeRecord, applicationRecord] = [20, 22, 23];

function message(type: number, body: Buffer): Buffer {
  return Buffer.concat([Buffer.from([type]), vector(3, body)]);
}

function helloOf(name: string, share: Buffer | undefined): Buffer {
  const shares = share === undefined ? [] : [u16(p256), vector(2, share)];
  const body = [
    ...[Buffer.from([3, 3]), Buffer.alloc(32, 7), vector(1, Buffer.alloc(32, 9))],
    ...[vector(2, u16(0x1301)), vector(1, Buffer.from([0]))],
    vector(
      2,
      extension(0, vector(2, Buffer.from([0]), vector(2, Buffer.from(name)))),
      extension(10, vector(2, u16(p256))),
      extension(13, vector(2, u16(0x0403), u16(0x0804))),
      extension(43, vector(1, u16(0x0304))),
      extension(51, vector(2, ...shares)),
    ),
  ];
  return message(clientHello, Buffer.concat(body));
}

function record(type: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.from([type, 3, 3]), vector(2, content)]);
}

/** RFC 8446 §7.1 */
function expandLabel(secret: Buffer, label: string, context: Buffer, length: number): Buffer {
  const info = Buffer.concat([u16(length), vector(1, Buffer.from(`tls13 ${label}`)), vector(1, context)]);
  return hmac(secret, Buffer.concat([info, Buffer.from([1])])).subarray(0, length);
}

/** The keys of one direction. */
class Keys {
  #secret: Buffer;
  #key: Buffer;
  #iv: Buffer;
  #sequence = 0;

  constructor(secret: Buffer) {
    this.#secret = secret;
    this.#key = expandLabel(secret, "key", Buffer.alloc(0), 16);
    this.#iv = expandLabel(secret, "iv", Buffer.alloc(0), 12);
  }

  #nonce(): Buffer {
    const nonce = Buffer.from(this.#iv);
    nonce.writeUInt32BE((nonce.readUInt32BE(8) ^ this.#sequence++) >>> 0, 8);
    return nonce;
  }

  open(content: Buffer): Buffer {
    const decipher = createDecipheriv("aes-128-gcm", this.#key, this.#nonce());
    decipher.setAAD(Buffer.concat([Buffer.from([applicationRecord, 3, 3]), u16(content.length)]));
    decipher.setAuthTag(content.subarray(-16));
    const plain = Buffer.concat([decipher.update(content.subarray(0, -16)), decipher.final()]);
    // The last byte is the type.
    return plain.subarray(0, -1);
  }

  /** A KeyUpdate message, which asks for the same of the server. The next message has new keys. */
  update(): Buffer {
    const sealed = this.seal(message(keyUpdate, Buffer.of(1)));
    this.#secret = expandLabel(this.#secret, "traffic upd", Buffer.alloc(0), 32);
    this.#key = expandLabel(this.#secret, "key", Buffer.alloc(0), 16);
    this.#iv = expandLabel(this.#secret, "iv", Buffer.alloc(0), 12);
    this.#sequence = 0;
    return sealed;
  }

  seal(content: Buffer): Buffer {
    const cipher = createCipheriv("aes-128-gcm", this.#key, this.#nonce());
    cipher.setAAD(Buffer.concat([Buffer.from([applicationRecord, 3, 3]), u16(content.length + 17)]));
    const sealed = [cipher.update(Buffer.concat([content, Buffer.from([handshakeRecord])])), cipher.final()];
    return record(applicationRecord, Buffer.concat([...sealed, cipher.getAuthTag()]));
  }
}

/** Reads records and messages of a socket. */
class Reader {
  readonly #chunks: AsyncIterator<Buffer, undefined>;
  #bytes = Buffer.alloc(0);
  #messages = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.#chunks = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer, undefined>;
  }

  async #take(length: number): Promise<Buffer> {
    while (this.#bytes.length < length) {
      const next = await this.#chunks.next();
      if (next.done === true) throw new Error("the server has closed the connection");
      this.#bytes = Buffer.concat([this.#bytes, next.value]);
    }
    const taken = this.#bytes.subarray(0, length);
    this.#bytes = this.#bytes.subarray(length);
    return taken;
  }

  async message(keys: Keys | undefined): Promise<Buffer> {
    const lengthOf = () => (this.#messages.length < 4 ? 4 : 4 + this.#messages.readUIntBE(1, 3));
    while (this.#messages.length < lengthOf()) {
      const header = await this.#take(5);
      const content = await this.#take(header.readUInt16BE(3));
      if (header[0] === changeCipherSpec) continue;
      if (header[0] !== (keys === undefined ? handshakeRecord : applicationRecord)) {
        throw new Error(`an alert of the server: ${content.toString("hex")}`);
      }
      this.#messages = Buffer.concat([this.#messages, keys === undefined ? content : keys.open(content)]);
    }
    const length = lengthOf();
    const whole = this.#messages.subarray(0, length);
    this.#messages = this.#messages.subarray(length);
    return whole;
  }
}

/**
 * Performs a handshake on a connected socket. Rejects if the server ends it. Whether the server accepts the client's
 * last message is not known afterwards.
 *
 * @param names of the first and of the second ClientHello.
 * @returns the keys of what the client sends.
 */
export async function sendTwoHellos(socket: Socket, names: readonly [string, string]): Promise<Keys> {
  const reader = new Reader(socket);
  const first = helloOf(names[0], undefined);
  socket.write(record(handshakeRecord, first));
  const retry = await reader.message(undefined);
  const keyPair: ECDH = createECDH("prime256v1");
  const second = helloOf(names[1], keyPair.generateKeys());
  socket.write(record(handshakeRecord, second));
  const hello = await reader.message(undefined);
  if (hello[0] !== serverHello) throw new Error("no ServerHello");
  // The last extension is the key share, or the version: the share is 65 bytes behind its length.
  const share = hello.indexOf(Buffer.concat([u16(51), u16(69), u16(p256), u16(65)])) + 8;
  const transcript = [message(254, sha256(first)), retry, second, hello];
  const early = hmac(Buffer.alloc(32), Buffer.alloc(32));
  const secret = hmac(
    expandLabel(early, "derived", sha256(), 32),
    keyPair.computeSecret(hello.subarray(share, share + 65)),
  );
  const secretOf = (side: string): Buffer =>
    expandLabel(secret, `${side} hs traffic`, sha256(...transcript.slice(0, 4)), 32);
  const [client, server] = [new Keys(secretOf("c")), new Keys(secretOf("s"))];
  let isAsked = false;
  for (let type: number | undefined; type !== finished; ) {
    const next = await reader.message(server);
    [type] = next;
    isAsked ||= type === certificateRequest;
    transcript.push(next);
  }
  const own: Buffer[] = isAsked ? [message(11, Buffer.concat([vector(1), vector(3)]))] : [];
  const finishedKey = expandLabel(secretOf("c"), "finished", Buffer.alloc(0), 32);
  own.push(message(finished, hmac(finishedKey, sha256(...transcript, ...own))));
  socket.write(Buffer.concat([record(changeCipherSpec, Buffer.from([1])), ...own.map((each) => client.seal(each))]));
  const main = hmac(expandLabel(secret, "derived", sha256(), 32), Buffer.alloc(32));
  return new Keys(expandLabel(main, "c ap traffic", sha256(...transcript), 32));
}
