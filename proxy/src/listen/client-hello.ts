/**
 * Reads the first message of a TLS connection, the ClientHello (RFC 8446 §4.1.2, RFC 5246 §7.4.1.2), for its server
 * name and its protocols, without consuming it. It may be in several records, each in any number of packets. Unknown
 * extensions are skipped, so that values that clients send at random (GREASE, RFC 8701) are. With Encrypted Client
 * Hello the name is that of the outer message, which the client has chosen to be seen.
 */
import type { FirstBytes } from "./first-bytes.ts";
import { serverNameOf } from "./server-name.ts";
import { asksForRetry } from "./tls-groups.ts";

/** What the ClientHello says. */
export interface ClientHello {
  readonly kind: "hello";
  /** The server name, as `serverNameOf` spells it; empty if there is none. */
  readonly serverName: string;
  /** The protocols of ALPN (RFC 7301) in the order of the client, as latin1 text. */
  readonly protocols: readonly string[];
  /** Whether TLS termination asks for a second ClientHello, if it accepts this one and has TLS 1.3. */
  readonly isRetried: boolean;
}

/** The connection does not begin with a ClientHello. */
export interface NoClientHello {
  readonly kind: "invalid";
  /** For the log: what was found. */
  readonly reason: string;
  /** Whether it begins as TLS does, so that its client understands an alert. */
  readonly isTls: boolean;
}

/** The most bytes of a ClientHello. Those of browsers have up to 2 KiB, with keys of post-quantum algorithms. */
export const maxHelloBytes = 16 * 1024;
/** The most records that a ClientHello may be in, which bounds their headers. */
const maxRecords = 64;

const handshakeRecord = 22;
const clientHello = 1;
const recordHeaderBytes = 5;
const messageHeaderBytes = 4;
const serverNameExtension = 0;
const supportedGroupsExtension = 10;
const alpnExtension = 16;
const supportedVersionsExtension = 43;
const keyShareExtension = 51;
const tls13 = 0x0304;
const hostNameType = 0;

/**
 * Reads the first bytes of a connection. Consumes none. Needs at most `maxHelloBytes`, and the headers of 64 records.
 */
export function readClientHello(bytes: Buffer): FirstBytes<ClientHello | NoClientHello> {
  const message = joinRecords(bytes);
  if (message === undefined) return undefined;
  const value = Buffer.isBuffer(message) ? parseHello(message) : message;
  return { value, consumed: 0 };
}

/** Returns the message with its header, undefined if more bytes are needed. */
function joinRecords(bytes: Buffer): Buffer | NoClientHello | undefined {
  const parts: Buffer[] = [];
  let held = 0;
  let length: number | undefined;
  let at = 0;
  for (let record = 0; record < maxRecords; record++) {
    const fault = faultOfHeader(bytes.subarray(at, at + recordHeaderBytes), at > 0);
    if (fault !== undefined) return fault;
    if (bytes.length - at < recordHeaderBytes) return undefined;
    const recordLength = bytes.readUInt16BE(at + 3);
    if (recordLength === 0) return invalid("an empty record", true);
    const part = bytes.subarray(at + recordHeaderBytes, at + recordHeaderBytes + recordLength);
    parts.push(part);
    held += part.length;
    // By the first byte, another message is rejected before the rest of it is read.
    const first = parts[0]?.[0];
    if (first !== undefined && first !== clientHello) return invalid("a handshake without a ClientHello", true);
    if (length === undefined && held >= messageHeaderBytes) {
      length = messageHeaderBytes + joined(parts).readUIntBE(1, 3);
      if (length > maxHelloBytes) return invalid(`a ClientHello of ${length} bytes`, true);
    }
    // Bytes behind the message belong to the next one, which a client sends after our ServerHello, except for early
    // data.
    if (length !== undefined && held >= length) return joined(parts).subarray(0, length);
    if (part.length < recordLength) return undefined;
    at += recordHeaderBytes + recordLength;
  }
  return invalid(`a ClientHello in more than ${maxRecords} records`, true);
}

function joined(parts: readonly Buffer[]): Buffer {
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts);
}

/** @param isLater whether a record of TLS came before. */
function faultOfHeader(header: Buffer, isLater: boolean): NoClientHello | undefined {
  const [type, major] = header;
  if (type !== undefined && type !== handshakeRecord) return invalid("no handshake of TLS", isLater);
  // Clients send 3.1, and 3.3 in later records; the version proper is in the message (RFC 8446 §5.1).
  if (major !== undefined && major !== 3) return invalid("no handshake of TLS", isLater);
  return undefined;
}

function invalid(reason: string, isTls: boolean): NoClientHello {
  return { kind: "invalid", reason, isTls };
}

/** Thrown where a length in the message exceeds the bytes that follow it. */
class Malformed extends Error {}

/** Takes the fields of a message one by one. */
class Fields {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  number(bytes: 1 | 2): number {
    return this.take(bytes).readUIntBE(0, bytes);
  }

  /** Takes as many bytes as the number before them says. */
  vector(lengthBytes: 1 | 2): Buffer {
    return this.take(this.number(lengthBytes));
  }

  take(length: number): Buffer {
    if (length > this.#bytes.length - this.#at) throw new Malformed();
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }
}

function parseHello(message: Buffer): ClientHello | NoClientHello {
  try {
    return helloOf(new Fields(message.subarray(messageHeaderBytes)));
  } catch (error) {
    if (error instanceof Malformed) return invalid("a malformed ClientHello", true);
    throw error;
  }
}

function helloOf(fields: Fields): ClientHello {
  // Version and random.
  fields.take(2 + 32);
  // Session id, ciphers, compression methods.
  fields.vector(1);
  fields.vector(2);
  fields.vector(1);
  let serverName = "";
  let protocols: readonly string[] = [];
  const forKeys = new Map<number, Buffer>();
  // TLS 1.2 has clients without extensions.
  const extensions = new Fields(fields.isAtEnd ? Buffer.alloc(0) : fields.vector(2));
  if (!fields.isAtEnd) throw new Malformed();
  const seen = new Set<number>();
  while (!extensions.isAtEnd) {
    const type = extensions.number(2);
    const content = extensions.vector(2);
    // RFC 8446 §4.2: of each type there is one. Two names would be one for us and one for the server.
    if (seen.has(type)) throw new Malformed();
    seen.add(type);
    if (type === serverNameExtension) serverName = nameOf(new Fields(content));
    if (type === alpnExtension) protocols = protocolsOf(new Fields(content));
    if (keyExtensions.has(type)) forKeys.set(type, content);
  }
  return { kind: "hello", serverName, protocols, isRetried: isRetried(forKeys) };
}

/** The extensions by which the key exchange is chosen. */
const keyExtensions = new Set([supportedGroupsExtension, supportedVersionsExtension, keyShareExtension]);

/** A server ends the connection if an extension is malformed; a retry is assumed for it, which costs more. */
function isRetried(extensions: ReadonlyMap<number, Buffer>): boolean {
  const [versions, groups, keyShares] = [supportedVersionsExtension, supportedGroupsExtension, keyShareExtension].map(
    (type) => extensions.get(type),
  );
  if (versions === undefined || groups === undefined || keyShares === undefined) return false;
  try {
    if (!numbersOf(new Fields(versions).vector(1)).has(tls13)) return false;
    return asksForRetry(numbersOf(new Fields(groups).vector(2)), sharesOf(new Fields(keyShares).vector(2)));
  } catch (error) {
    if (error instanceof Malformed) return true;
    throw error;
  }
}

function numbersOf(list: Buffer): ReadonlySet<number> {
  const fields = new Fields(list);
  const numbers = new Set<number>();
  while (!fields.isAtEnd) numbers.add(fields.number(2));
  return numbers;
}

/** The groups of the keys in a list (RFC 8446 §4.2.8). */
function sharesOf(list: Buffer): ReadonlySet<number> {
  const fields = new Fields(list);
  const groups = new Set<number>();
  while (!fields.isAtEnd) {
    groups.add(fields.number(2));
    fields.vector(2);
  }
  return groups;
}

/** RFC 6066 §3: a list with one name of each type, of which there is one. */
function nameOf(content: Fields): string {
  const list = content.vector(2);
  if (!content.isAtEnd || list.length === 0) throw new Malformed();
  const names = new Fields(list);
  let hostName = "";
  while (!names.isAtEnd) {
    const type = names.number(1);
    const name = names.vector(2);
    if (type !== hostNameType) continue;
    const spelled = serverNameOf(name.toString("latin1"));
    if (hostName !== "" || spelled === undefined) throw new Malformed();
    hostName = spelled;
  }
  return hostName;
}

function protocolsOf(content: Fields): readonly string[] {
  const list = new Fields(content.vector(2));
  if (!content.isAtEnd) throw new Malformed();
  const protocols: string[] = [];
  while (!list.isAtEnd) protocols.push(list.vector(1).toString("latin1"));
  return protocols;
}
