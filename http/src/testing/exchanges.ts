/** Requests of a client of either protocol, and the events that it receives. */
import type {
  BodyReceiver,
  ClientExchange,
  ClientExchangeEvents,
  ClientFailure,
  ClientRequest,
  FieldList,
  OutgoingBody,
  SwitchedStream,
} from "../ports.ts";

/** The events of one exchange. */
export interface ReceivedResponse {
  readonly interim: readonly (readonly [number, FieldList])[];
  readonly status: number | undefined;
  readonly fields: FieldList | undefined;
  readonly body: string;
  readonly trailers: FieldList | undefined;
  readonly failure: ClientFailure | undefined;
  readonly switched: SwitchedStream | undefined;
}

/** A request that was sent. */
export interface SentRequest {
  readonly exchange: ClientExchange;
  readonly received: ReceivedResponse;
  /** Resolves at the end, the failure or the switch. */
  readonly over: Promise<undefined>;
}

/** A request for `/`. */
export const get: ClientRequest = {
  method: "GET",
  path: "/",
  fields: ["Host", "a"],
  body: undefined,
  upgrade: undefined,
};

/** A body whose parts a test sends. */
export class TestBody implements OutgoingBody {
  isPaused = false;
  isCancelled = false;
  receiver: BodyReceiver | undefined;

  read(receiver: BodyReceiver): void {
    this.receiver = receiver;
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  cancel(): void {
    this.isCancelled = true;
  }
}

/**
 * Sends a request, and records its events.
 *
 * @param events that a test handles, too.
 */
export function sendRecorded(
  send: (events: ClientExchangeEvents) => ClientExchange,
  events: Partial<ClientExchangeEvents> = {},
): SentRequest {
  const over = Promise.withResolvers<undefined>();
  const interim: [number, FieldList][] = [];
  const received: { -readonly [name in keyof ReceivedResponse]: ReceivedResponse[name] } = {
    ...{ interim, status: undefined, fields: undefined, body: "", trailers: undefined },
    ...{ failure: undefined, switched: undefined },
  };
  const exchange = send({
    onInterimHead: (status, fields) => interim.push([status, fields]),
    onHead(status, fields) {
      Object.assign(received, { status, fields });
      events.onHead?.(status, fields);
    },
    onData(bytes, isExclusive) {
      received.body += bytes.toString("latin1");
      events.onData?.(bytes, isExclusive);
    },
    onEnd(trailers) {
      received.trailers = trailers;
      over.resolve(undefined);
    },
    onFailure(failure) {
      received.failure = failure;
      over.resolve(undefined);
    },
    onSwitched(fields, switched) {
      Object.assign(received, { fields, switched });
      over.resolve(undefined);
    },
  });
  return { exchange, received, over: over.promise };
}
