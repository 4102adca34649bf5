/** An endpoint of the admin server: its parameters and its response. `server.ts` maps them to HTTP. */
import type { IncomingHttpHeaders } from "node:http";

/** An endpoint, with its description for the index and for validation. */
export interface AdminEndpoint {
  readonly path: string;
  /** Query parameters as the index shows them: `seconds=N`. All others are rejected. */
  readonly query: readonly string[];
  /** A summary in one sentence. */
  readonly summary: string;
  /** Handlers by method; all other methods get a 405. */
  readonly methods: Readonly<Partial<Record<AdminMethod, AdminHandler>>>;
}

/** The methods of the admin server. A HEAD request is served as a GET without the body. */
export const adminMethods = ["GET", "POST"] as const;
/** A method of an endpoint. */
export type AdminMethod = (typeof adminMethods)[number];

/** Responds to one request. The server responds 500 if it throws or rejects. */
export type AdminHandler = (request: AdminRequest) => AdminResponse | Promise<AdminResponse>;

/** A request that has passed the checks of host, origin and token. Its query has only known parameters. */
export interface AdminRequest {
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  /** Address of the peer; undefined on a Unix socket. */
  readonly source: string | undefined;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
}

/** A response with status 200, in one of the forms that the server can write, or an error. */
export type AdminResponse =
  | { readonly kind: "json"; readonly value: unknown }
  /** `whenSent` is called when the whole response is sent. */
  | { readonly kind: "text"; readonly text: string; readonly contentType?: string; readonly whenSent?: () => void }
  | { readonly kind: "file"; readonly bytes: Buffer; readonly contentType: string; readonly name: string }
  /** A file of the admin UI. */
  | {
      readonly kind: "asset";
      readonly bytes: Buffer;
      readonly contentType: string;
      readonly contentSecurityPolicy: string;
    }
  | { readonly kind: "events"; readonly send: (stream: EventSink, signal: AbortSignal) => Promise<void> }
  | AdminError;

/** The destination of server-sent events. */
export interface EventSink {
  comment(text: string): void;
  /** @param json One line. */
  data(json: string): void;
}

/** An error response; its body is the JSON `{error, hint}`. */
export interface AdminError {
  readonly kind: "error";
  readonly status: 400 | 401 | 403 | 404 | 405 | 429 | 500 | 503;
  /** The request and the reason of the rejection. */
  readonly error: string;
  /** Accepted values. */
  readonly hint: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Returns the response to a request that is rejected for its parameters or for the state of the proxy. */
export function reject(status: AdminError["status"], error: string, hint: string): AdminError {
  return { kind: "error", status, error, hint };
}
