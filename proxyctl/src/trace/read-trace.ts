/** Reads trace events, from the admin server or from a file. */
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { type TraceEvent, traceEventSchema } from "@gatewayproxy/admin-api/trace-event";
import { parseResponse } from "../admin/admin-client.ts";
import { readEvents } from "../admin/event-stream.ts";

/** An item of a trace stream. */
export type TraceItem =
  /** The server is ready to trace. */
  | { readonly kind: "ready" }
  | {
      readonly kind: "event";
      readonly event: TraceEvent /** The event as received, one line of JSON. */;
      readonly text: string;
    };

/** Ends with the stream. Throws a `CommandError` for an invalid event. */
export async function* readTrace(stream: AsyncIterable<Buffer>): AsyncGenerator<TraceItem, void, undefined> {
  for await (const item of readEvents(stream)) {
    if (item.kind === "data") yield parseEvent(item.text);
    else if (item.text === "ready") yield { kind: "ready" };
  }
}

/** Reads a trace as `--raw` prints it: one line of JSON per event. */
export async function* readSavedTrace(lines: Readable): AsyncGenerator<TraceItem, void, undefined> {
  for await (const line of createInterface(lines)) if (line.trim() !== "") yield parseEvent(line);
}

function parseEvent(text: string): TraceItem {
  return { kind: "event", text, event: parseResponse("read an event of the trace", text, traceEventSchema) };
}
