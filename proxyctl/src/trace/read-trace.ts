/** The admin server's stream of trace events, or a saved one, read item by item. */
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { type TraceEvent, traceEventSchema } from "@gatewayproxy/admin-api/trace-event";
import { parseAnswer } from "../admin/admin-client.ts";
import { readEvents } from "../admin/event-stream.ts";

export type TraceItem =
  /** The server watches from now on. */
  | { readonly kind: "ready" }
  | { readonly kind: "event"; readonly event: TraceEvent /** As it came, one line of JSON. */; readonly text: string };

/** Ends with the stream. Throws a `CommandError` at an event that is not understood. */
export async function* readTrace(stream: AsyncIterable<Buffer>): AsyncGenerator<TraceItem, void, undefined> {
  for await (const item of readEvents(stream)) {
    if (item.kind === "data") yield parseEvent(item.text);
    else if (item.text === "ready") yield { kind: "ready" };
  }
}

/** A trace as `--raw` prints it: a line of JSON per event. */
export async function* readSavedTrace(lines: Readable): AsyncGenerator<TraceItem, void, undefined> {
  for await (const line of createInterface(lines)) if (line.trim() !== "") yield parseEvent(line);
}

function parseEvent(text: string): TraceItem {
  return { kind: "event", text, event: parseAnswer("read an event of the trace", text, traceEventSchema) };
}
