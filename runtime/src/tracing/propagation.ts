/** Reads the trace context of a caller from headers, and writes ours for those that we call (OTEL_PROPAGATORS). */
import {
  baggageHeader,
  parseB3Multi,
  parseB3Single,
  parseTraceparent,
  type RemoteContext,
  renderTraceparent,
  traceparentHeader,
  tracestateHeader,
  validBaggage,
  validTracestate,
} from "./trace-context.ts";

/** The formats that OTEL_PROPAGATORS may list, besides `none`. */
export const propagatorNames = ["tracecontext", "baggage", "b3", "b3multi"] as const;
/** A format of headers. */
export type Propagator = (typeof propagatorNames)[number];

/** What a caller has sent. */
export interface Extracted {
  /** Whether it has sent any field of the formats, valid or not. */
  readonly hasFields: boolean;
  /** Undefined if it has sent no valid context. */
  readonly parent: RemoteContext | undefined;
  /** Of `tracestate`; undefined without a `traceparent`, and if it is not valid. */
  readonly tracestate: string | undefined;
  /** Of `baggage`; undefined if it is not valid. */
  readonly baggage: string | undefined;
}

/** The span that those that we call get as their parent. */
export interface OutgoingContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
  readonly tracestate: string | undefined;
  readonly baggage: string | undefined;
}

/** Most requests have none of the fields. */
const nothingSent: Extracted = { hasFields: false, parent: undefined, tracestate: undefined, baggage: undefined };

/** Returns the value of a field by its name in lower case; undefined if there is none. */
type FieldReader = (name: string) => string | undefined;

const b3Names = { traceId: "x-b3-traceid", spanId: "x-b3-spanid", sampled: "x-b3-sampled", flags: "x-b3-flags" };
const b3MultiHeaders = [...Object.values(b3Names), "x-b3-parentspanid"];

const headersOf: Readonly<Record<Propagator, readonly string[]>> = {
  tracecontext: [traceparentHeader, tracestateHeader],
  baggage: [baggageHeader],
  b3: ["b3"],
  b3multi: b3MultiHeaders,
};

/** The formats of a process. Each is used in both directions. */
export class Propagation {
  readonly #propagators: readonly Propagator[];
  readonly #hasBaggage: boolean;
  readonly #names: ReadonlySet<string>;
  /** By length, whether a name has it: the length decides about most fields. */
  readonly #lengths: readonly boolean[];

  constructor(propagators: readonly Propagator[]) {
    this.#propagators = propagators;
    this.#hasBaggage = propagators.includes("baggage");
    this.#names = new Set(propagators.flatMap((propagator) => headersOf[propagator]));
    const lengths = Array.from(this.#names, ({ length }) => length);
    this.#lengths = Array.from({ length: Math.max(0, ...lengths) + 1 }, (_, length) => lengths.includes(length));
  }

  /**
   * Reads the context of a caller. If several formats have one, the last in the list of the setting counts.
   *
   * @param fields names and values in turn.
   */
  extract(fields: readonly string[]): Extracted {
    const read = this.#readerOf(fields);
    if (read === undefined) return nothingSent;
    let parent: RemoteContext | undefined;
    let tracestate: string | undefined;
    for (const propagator of this.#propagators) {
      const found = extractOne(propagator, read);
      if (found === undefined) continue;
      parent = found;
      tracestate = propagator === "tracecontext" ? validTracestate(read(tracestateHeader)) : undefined;
    }
    const baggage = this.#hasBaggage ? validBaggage(read(baggageHeader)) : undefined;
    return { hasFields: true, parent, tracestate, baggage };
  }

  /** Returns the fields that make `context` the parent: names in lower case and values, in turn. */
  fieldsOf({ traceId, spanId, isSampled, tracestate, baggage }: OutgoingContext): string[] {
    const fields: string[] = [];
    for (const propagator of this.#propagators) {
      if (propagator === "tracecontext") {
        fields.push(traceparentHeader, renderTraceparent(traceId, spanId, isSampled));
        if (tracestate !== undefined) fields.push(tracestateHeader, tracestate);
      } else if (propagator === "b3") {
        fields.push("b3", `${traceId}-${spanId}-${isSampled ? "1" : "0"}`);
      } else if (propagator === "b3multi") {
        fields.push(b3Names.traceId, traceId, b3Names.spanId, spanId, b3Names.sampled, isSampled ? "1" : "0");
      } else if (baggage !== undefined) {
        fields.push(baggageHeader, baggage);
      }
    }
    return fields;
  }

  /**
   * Returns `fields` without those of these formats, which a caller has sent to us.
   *
   * @param fields names and values in turn.
   */
  without(fields: readonly string[]): string[] {
    const kept: string[] = [];
    for (let at = 0; at + 1 < fields.length; at += 2) {
      const name = fields[at] ?? "";
      if (this.#lengths[name.length] === true && this.#names.has(name.toLowerCase())) continue;
      kept.push(name, fields[at + 1] ?? "");
    }
    return kept;
  }

  /** Returns a reader of the fields of these formats, which looks at each field once; undefined if there is none. */
  #readerOf(fields: readonly string[]): FieldReader | undefined {
    let found: Map<string, string> | undefined;
    for (let at = 0; at + 1 < fields.length; at += 2) {
      const name = fields[at] ?? "";
      if (this.#lengths[name.length] !== true) continue;
      const lower = name.toLowerCase();
      if (!this.#names.has(lower)) continue;
      found ??= new Map();
      const value = fields[at + 1] ?? "";
      // A list may have several lines (RFC 9110 §5.3). Of the others, two values are not valid.
      found.set(lower, found.has(lower) ? `${found.get(lower) ?? ""},${value}` : value);
    }
    return found && ((name) => found.get(name));
  }
}

function extractOne(propagator: Propagator, read: FieldReader): RemoteContext | undefined {
  switch (propagator) {
    case "tracecontext":
      return parseTraceparent(read(traceparentHeader));
    case "b3":
      return parseB3Single(read("b3"));
    case "b3multi":
      return parseB3Multi({
        traceId: read(b3Names.traceId),
        spanId: read(b3Names.spanId),
        sampled: read(b3Names.sampled),
        flags: read(b3Names.flags),
      });
    case "baggage":
      return undefined;
  }
}
