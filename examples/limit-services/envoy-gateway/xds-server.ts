/**
 * The xDS server for Envoy Gateway's rate limit service, as a replacement of Envoy Gateway: the state of the world of
 * `RateLimitConfig` over one ADS stream, with mutual TLS, for the node `envoy-ratelimit` only. The resources are those
 * of configs.json; an edit is sent as a new version. It has no dependencies, so that any Node.js image runs it.
 */
import { readFileSync, watchFile } from "node:fs";
import { createSecureServer, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";

const certs = process.env["CERTS"] ?? "/certs";
const file = `${process.env["CONFIGS"] ?? "/configs"}/configs.json`;
const path = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
const node = "envoy-ratelimit";
const typeUrl = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";
/** `RateLimitUnit` of the protocol, by its numbers. */
const units = ["UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY"];

interface Descriptor {
  readonly key: string;
  readonly value?: string;
  readonly rateLimit?: { readonly unit: string; readonly requestsPerUnit: number };
  readonly descriptors?: readonly Descriptor[];
}

interface Config {
  readonly name: string;
  readonly domain: string;
  readonly descriptors: readonly Descriptor[];
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left > 127; left = Math.floor(left / 128)) bytes.push((left % 128) + 128);
  return Buffer.from([...bytes, left]);
}

/** Encodes a field of a string or a message. */
function field(number: number, content: string | Buffer): Buffer {
  const bytes = Buffer.from(content);
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

const numeric = (number: number, value: number): Buffer => Buffer.concat([varint(number * 8), varint(value)]);

function descriptorMessage({ key, value = "", rateLimit, descriptors = [] }: Descriptor): Buffer {
  const limit =
    rateLimit === undefined
      ? []
      : [field(3, Buffer.concat([numeric(1, units.indexOf(rateLimit.unit)), numeric(2, rateLimit.requestsPerUnit)]))];
  return Buffer.concat([field(1, key), field(2, value), ...limit, ...descriptors.map(nestedIn(4))]);
}

const nestedIn =
  (number: number) =>
  (descriptor: Descriptor): Buffer =>
    field(number, descriptorMessage(descriptor));

/** Encodes a `DiscoveryResponse` with all resources. */
function response(version: string, configs: readonly Config[]): Buffer {
  const resources = configs.map(({ name, domain, descriptors }) => {
    const config = Buffer.concat([field(1, name), field(2, domain), ...descriptors.map(nestedIn(3))]);
    return field(2, Buffer.concat([field(1, typeUrl), field(2, config)]));
  });
  return Buffer.concat([field(1, version), ...resources, field(4, typeUrl), field(5, version)]);
}

/** Returns the strings and messages among the fields of a message, by number. */
function fieldsOf(message: Buffer): ReadonlyMap<number, Buffer> {
  const fields = new Map<number, Buffer>();
  let at = 0;
  const next = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = message[at++] ?? 0;
      value += (byte % 128) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = next();
    const value = next();
    if (tag % 8 !== 2) continue;
    fields.set(Math.floor(tag / 8), message.subarray(at, at + value));
    at += value;
  }
  return fields;
}

/** The streams on which the node has subscribed. */
const streams = new Set<ServerHttp2Stream>();
let version = 1;

function send(stream: ServerHttp2Stream): void {
  // The file is written by an operator for this program.
  const message = response(`${version}`, JSON.parse(readFileSync(file, "utf8")) as readonly Config[]);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  stream.write(Buffer.concat([head, message]));
}

/** Handles a request: the first of a stream identifies the node, later ones acknowledge or reject a version. */
function read(request: Buffer, stream: ServerHttp2Stream): void {
  const fields = fieldsOf(request);
  const textOf = (number: number): string => fields.get(number)?.toString() ?? "";
  const problem = fieldsOf(fields.get(6) ?? Buffer.alloc(0)).get(2);
  const id = fieldsOf(fields.get(2) ?? Buffer.alloc(0)).get(1);
  if (problem !== undefined) {
    console.log(`rejected: ${problem.toString()}`);
  } else if (textOf(5) !== "") {
    console.log(`version ${textOf(1)} accepted`);
  } else if (id?.toString() === node && textOf(4) === typeUrl) {
    streams.add(stream);
    send(stream);
  } else {
    console.log(`nothing for node ${id?.toString() ?? ""} and type ${textOf(4)}`);
  }
}

const server = createSecureServer({
  cert: readFileSync(`${certs}/tls.crt`),
  key: readFileSync(`${certs}/tls.key`),
  ca: readFileSync(`${certs}/ca.crt`),
  requestCert: true,
  rejectUnauthorized: true,
});
server.on("stream", (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
  stream.on("error", () => undefined);
  stream.on("close", () => streams.delete(stream));
  if (headers[":path"] !== path) {
    stream.respond({ ":status": 200, "content-type": "application/grpc", "grpc-status": "12" }, { endStream: true });
    return;
  }
  stream.respond({ ":status": 200, "content-type": "application/grpc" });
  let pending: Buffer = Buffer.alloc(0);
  stream.on("data", (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk]);
    while (pending.length >= 5 && pending.length >= 5 + pending.readUInt32BE(1)) {
      const end = 5 + pending.readUInt32BE(1);
      read(pending.subarray(5, end), stream);
      pending = pending.subarray(end);
    }
  });
  stream.on("end", () => stream.end());
});
watchFile(file, { interval: 500 }, () => {
  version += 1;
  streams.forEach(send);
});
server.listen(18_001, () => console.log("serves xDS on port 18001"));
process.once("SIGTERM", () => process.exit(0));
