/** A client of `/debug/trace`: opens the stream, waits for its first comment `ready`, and collects the events. */
import { get } from "node:http";
import { type TraceEvent, type TraceMessage, traceEventSchema } from "@gatewayproxy/admin-api/trace-event";

export interface TraceStream {
  /** The events so far. */
  readonly events: readonly TraceEvent[];
  /** Resolves with all events when the stream has ended. */
  readonly ended: Promise<readonly TraceEvent[]>;
  /** The number of `: keepalive` comments so far. */
  keepAlives(): number;
  close(): void;
}

/** Resolves when the proxy reports that it traces. @param admin `http://host:port` */
export function openTrace(admin: string, query = ""): Promise<TraceStream> {
  return new Promise((resolve, reject) => {
    const events: TraceEvent[] = [];
    const ended = Promise.withResolvers<readonly TraceEvent[]>();
    let keepAlives = 0;
    const request = get(`${admin}/debug/trace${query}`, { agent: false }, (response) => {
      let partial = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        const parts = (partial + chunk).split("\n\n");
        partial = parts.pop() ?? "";
        for (const part of parts) {
          if (part === ": ready") resolve(stream);
          else if (part === ": keepalive") keepAlives++;
          else events.push(traceEventSchema.parse(JSON.parse(part.replace(/^data: /, ""))));
        }
      });
      response.on("error", reject);
      response.on("close", () => ended.resolve(events));
    });
    request.on("error", reject);
    const stream = { events, ended: ended.promise, keepAlives: () => keepAlives, close: () => void request.destroy() };
  });
}

/** The messages of one type. */
export function messagesOf<Type extends TraceMessage["type"]>(
  events: readonly TraceEvent[],
  type: Type,
): readonly Extract<TraceMessage, { type: Type }>[] {
  return events
    .map(({ message }) => message)
    .filter((message): message is Extract<TraceMessage, { type: Type }> => message.type === type);
}
