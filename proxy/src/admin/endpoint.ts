/** What an endpoint of the admin server is: what it takes, and what it answers. How that goes over HTTP is `server.ts`'s. */
import type { IncomingHttpHeaders } from "node:http";

/** An endpoint and everything that the index and the checks need to know of it. */
export interface AdminEndpoint {
  readonly path: string;
  /** Parameters of the query, as the index shows them: `seconds=N`. Any other is refused. */
  readonly query: readonly string[];
  /** What it does, in one sentence. */
  readonly summary: string;
  /** By method; any other is answered with 405. */
  readonly methods: Readonly<Partial<Record<AdminMethod, AdminHandler>>>;
}

export const adminMethods = ["GET", "POST"] as const;
export type AdminMethod = (typeof adminMethods)[number];

export type AdminHandler = (request: AdminRequest) => AdminAnswer | Promise<AdminAnswer>;

export interface AdminRequest {
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  /** Aborts when the client has gone. */
  readonly signal: AbortSignal;
}

export type AdminAnswer =
  | { readonly kind: "json"; readonly value: unknown }
  /** `whenSent` is called when the client has all of it. */
  | { readonly kind: "text"; readonly text: string; readonly contentType?: string; readonly whenSent?: () => void }
  | { readonly kind: "file"; readonly bytes: Buffer; readonly contentType: string; readonly name: string }
  /** Of the web page. */
  | {
      readonly kind: "asset";
      readonly bytes: Buffer;
      readonly contentType: string;
      readonly contentSecurityPolicy: string;
    }
  | { readonly kind: "events"; readonly send: (stream: EventSink, signal: AbortSignal) => Promise<void> }
  | AdminRefusal;

/** Where server-sent events go. */
export interface EventSink {
  comment(text: string): void;
  /** @param json one line. */
  data(json: string): void;
}

export interface AdminRefusal {
  readonly kind: "refused";
  readonly status: 400 | 401 | 403 | 404 | 405 | 429 | 500 | 503;
  /** What was asked and why it was refused. */
  readonly error: string;
  /** What is accepted. */
  readonly hint: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A parameter or a state that does not allow an answer. */
export function refuse(status: AdminRefusal["status"], error: string, hint: string): AdminRefusal {
  return { kind: "refused", status, error, hint };
}
