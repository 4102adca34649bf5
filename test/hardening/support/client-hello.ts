/**
 * The first message of a TLS client (RFC 8446 §4.1.2), with server names and protocols that no TLS library would send.
 */

export interface HelloNames {
  /** Of the server_name extension (RFC 6066 §3), in latin1; absent: none. */
  readonly serverNames?: readonly string[] | undefined;
  /** Of the ALPN extension (RFC 7301 §3.1), in latin1; absent: none. */
  readonly protocols?: readonly string[] | undefined;
}

/** One record with a whole ClientHello for TLS 1.3 or 1.2. */
export function clientHello({ serverNames, protocols }: HelloNames): Buffer {
  const extensions = [
    ...(serverNames === undefined ? [] : [extension(0, sized(2, ...serverNames.map(hostName)))]),
    ...(protocols === undefined ? [] : [extension(16, sized(2, ...protocols.map((name) => sized(1, latin1(name)))))]),
    // Groups: x25519, secp256r1.
    extension(10, sized(2, hex("001d0017"))),
    extension(11, sized(1, hex("00"))),
    // Signatures of ECDSA and RSA with SHA-256, SHA-384 and SHA-512.
    extension(13, sized(2, hex("040308040401050308050501"))),
    extension(43, sized(1, hex("03040303"))),
    extension(51, sized(2, hex("001d"), sized(2, Buffer.alloc(32, 9)))),
  ];
  const body = Buffer.concat([
    hex("0303"),
    Buffer.alloc(32, 7),
    sized(1, Buffer.alloc(32, 8)),
    sized(2, hex("130113021303c02bc02fc02cc030")),
    sized(1, hex("00")),
    sized(2, ...extensions),
  ]);
  return Buffer.concat([hex("160301"), sized(2, hex("01"), sized(3, body))]);
}

function hostName(name: string): Buffer {
  return Buffer.concat([hex("00"), sized(2, latin1(name))]);
}

function extension(type: number, content: Buffer): Buffer {
  const head = Buffer.alloc(2);
  head.writeUInt16BE(type);
  return Buffer.concat([head, sized(2, content)]);
}

/**
 * The parts after their length, in this number of bytes; of longer parts the lowest bytes of the length, as a client
 * could send.
 */
function sized(lengthBytes: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const length = Buffer.alloc(lengthBytes);
  length.writeUIntBE(content.length % 256 ** lengthBytes, 0, lengthBytes);
  return Buffer.concat([length, content]);
}

const hex = (text: string): Buffer => Buffer.from(text, "hex");
const latin1 = (text: string): Buffer => Buffer.from(text, "latin1");
