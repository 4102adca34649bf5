/** Writes the fields of OTLP (opentelemetry-proto) that spans and log records share. */
import { WireWriter } from "@gatewayproxy/protos/wire-writer";

/** The program that exports. */
export interface Scope {
  readonly name: string;
  readonly version: string;
}

/** The fields that all items of a process share. */
export interface Origin {
  readonly resource: Readonly<Record<string, string>>;
  readonly scope: Scope;
}

/** Writes attributes, each as a `KeyValue`. Undefined is left out. */
export function writeAttributes(
  writer: WireWriter,
  field: number,
  attributes: Readonly<Record<string, unknown>>,
): void {
  for (const name in attributes) {
    const value = attributes[name];
    if (value !== undefined) writeAttribute(writer, field, name, value);
  }
}

/** Writes one attribute as a `KeyValue`. */
export function writeAttribute(writer: WireWriter, field: number, name: string, value: unknown): void {
  if (typeof value === "string" && writer.asciiPair(field, name, value)) return;
  const attribute = writer.begin(field);
  writer.string(1, name);
  writeAny(writer, 2, value);
  writer.end(attribute);
}

/** Writes a value as an `AnyValue`: a text, number, boolean, array or object of such values. Any other has no value. */
export function writeAny(writer: WireWriter, field: number, value: unknown): void {
  const any = writer.begin(field);
  if (typeof value === "string") {
    writer.presentString(1, value);
  } else if (typeof value === "number") {
    if (Number.isSafeInteger(value)) writer.presentInt(3, value);
    else writer.double(4, value);
  } else if (typeof value === "boolean") {
    writer.boolean(2, value);
  } else if (Array.isArray(value)) {
    const array = writer.begin(5);
    for (const item of value) writeAny(writer, 1, item);
    writer.end(array);
  } else if (typeof value === "object" && value !== null) {
    const list = writer.begin(6);
    // Own properties of plain data.
    writeAttributes(writer, 1, value as Readonly<Record<string, unknown>>);
    writer.end(list);
  }
  writer.end(any);
}

const half = 0x1_0000;
const whole = 0x1_0000_0000;

/**
 * Writes a time in nanoseconds, which have more bits than a number is exact for.
 *
 * @param ms since the epoch, with a fraction.
 */
export function writeTime(writer: WireWriter, field: number, ms: number): void {
  const seconds = Math.floor(ms / 1_000);
  const nanoseconds = Math.round((ms - seconds * 1_000) * 1_000_000);
  const upper = Math.floor(seconds / half) * 1_000_000_000;
  const lower = (seconds % half) * 1_000_000_000 + nanoseconds + (upper % half) * half;
  writer.fixed64Halves(field, Math.floor(upper / half) + Math.floor(lower / whole), lower % whole);
}

/** Writes an `InstrumentationScope`. */
export function writeScope(writer: WireWriter, field: number, { name, version }: Scope): void {
  const scope = writer.begin(field);
  writer.string(1, name);
  writer.string(2, version);
  writer.end(scope);
}

/** Returns the function that makes a message of items that one scope has: written spans or log records. */
export function messagesOfScope({ resource, scope }: Origin): (parts: readonly Buffer[]) => Buffer {
  const writer = new WireWriter();
  writeScope(writer, 1, scope);
  const scopeBytes = writer.take();
  const messageOf = messagesOfResource(resource);
  return (parts) => {
    writer.lengthOf(2, lengthOf(parts) + scopeBytes.length);
    return messageOf([writer.take(), scopeBytes, ...parts]);
  };
}

/** Returns the function that makes a message of items with a scope each: written `ScopeSpans` or `ScopeLogs`. */
export function messagesOfResource(resource: Origin["resource"]): (parts: readonly Buffer[]) => Buffer {
  const writer = new WireWriter();
  const field = writer.begin(1);
  writeAttributes(writer, 1, resource);
  writer.end(field);
  const resourceBytes = writer.take();
  return (parts) => {
    writer.lengthOf(1, resourceBytes.length + lengthOf(parts));
    return Buffer.concat([writer.take(), resourceBytes, ...parts]);
  };
}

function lengthOf(parts: readonly Buffer[]): number {
  return parts.reduce((sum, { length }) => sum + length, 0);
}
