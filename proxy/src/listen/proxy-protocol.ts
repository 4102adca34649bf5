/**
 * The PROXY protocol, versions 1 (text) and 2 (binary): a load balancer sends the address of the client before its
 * first byte (haproxy.org, "The PROXY protocol", 2020-03-05). It is read only with a setting, since any peer can claim
 * any address with it.
 */
import { isIP } from "node:net";
import { shortAddress } from "@gatewayproxy/runtime/ip-address";
import type { FirstBytes } from "./first-bytes.ts";

/** A parsed PROXY protocol header. */
export type ProxyHeader =
  /** `sourceAddress` is undefined for connections of the balancer itself (health checks), or if it knows no address. */
  { readonly kind: "header"; readonly sourceAddress: string | undefined } | { readonly kind: "invalid" };

/** §2.2 */
const signature = Buffer.from("\r\n\r\n\0\r\nQUIT\n", "latin1");
/** §2.2: signature, version and command, family, length. */
const fixedBytes = 16;
/** Bound of the addresses and the extensions (TLVs) that follow them. Known balancers send far less. */
const maxAddressBytes = 4_096;
/** §2.1: maximum length of a line, with CRLF. */
const maxLineBytes = 107;

/** Parses the first bytes of a connection. Anything other than a well-formed header is invalid. */
export function readProxyHeader(bytes: Buffer): FirstBytes<ProxyHeader> {
  const known = Math.min(bytes.length, signature.length);
  if (bytes.compare(signature, 0, known, 0, known) === 0) {
    return bytes.length < fixedBytes ? undefined : readBinary(bytes);
  }
  const start = bytes.toString("latin1", 0, Math.min(bytes.length, 6));
  return "PROXY ".startsWith(start) ? readLine(bytes) : invalid;
}

const invalid: FirstBytes<ProxyHeader> = { value: { kind: "invalid" }, consumed: 0 };

/** `PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n` or `PROXY UNKNOWN …\r\n` (§2.1). */
function readLine(bytes: Buffer): FirstBytes<ProxyHeader> {
  const end = bytes.subarray(0, maxLineBytes).indexOf("\r\n");
  if (end === -1) return bytes.length < maxLineBytes ? undefined : invalid;
  const consumed = end + 2;
  const [, family, source = "", destination = "", ...ports] = bytes.toString("latin1", 0, end).split(" ");
  if (family === "UNKNOWN") return found(undefined, consumed);
  const version = family === "TCP4" ? 4 : family === "TCP6" ? 6 : undefined;
  if (isIP(source) !== version || isIP(destination) !== version) return invalid;
  if (ports.length !== 2 || !ports.every(isPort)) return invalid;
  return found(source, consumed);
}

/** The signature is followed by version and command, family and transport, and the length of the rest (§2.2). */
function readBinary(bytes: Buffer): FirstBytes<ProxyHeader> {
  const command = bytes.readUInt8(12);
  const family = bytes.readUInt8(13);
  const length = bytes.readUInt16BE(14);
  const consumed = fixedBytes + length;
  if (length > maxAddressBytes) return invalid;
  if (bytes.length < consumed) return undefined;
  switch (command) {
    case 0x20:
      // LOCAL: a connection of the balancer itself; the addresses are ignored.
      return found(undefined, consumed);
    case 0x21:
      return addressOf(bytes.subarray(fixedBytes, consumed), family, consumed);
    default:
      return invalid;
  }
}

/**
 * Reads the source address. Source, destination and their ports have the format in the high half of `family` (§2.2).
 */
function addressOf(block: Buffer, family: number, consumed: number): FirstBytes<ProxyHeader> {
  switch (family >> 4) {
    case 1:
      return block.length < 12 ? invalid : found(block.subarray(0, 4).join("."), consumed);
    case 2:
      return block.length < 36 ? invalid : found(ipv6Text(block), consumed);
    default:
      // Unspecified, or a Unix socket: there is no IP address that a limit could use.
      return found(undefined, consumed);
  }
}

/** Normalizes the address: a balancer may write an IPv6 address in many forms, and map an IPv4 address into it. */
function found(source: string | undefined, consumed: number): FirstBytes<ProxyHeader> {
  const sourceAddress = source === undefined ? undefined : shortAddress(source);
  return { value: { kind: "header", sourceAddress }, consumed };
}

function ipv6Text(block: Buffer): string {
  return Array.from({ length: 8 }, (_, index) => block.readUInt16BE(index * 2).toString(16)).join(":");
}

function isPort(text: string): boolean {
  return /^(?:0|[1-9]\d{0,4})$/.test(text) && Number(text) <= 65_535;
}
