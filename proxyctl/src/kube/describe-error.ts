/** Describes errors of the Kubernetes API and of port-forwards, with advice. */
import { CommandError, type Failure, textOf } from "../command-error.ts";

/** The API server, for messages. */
export interface ApiServer {
  readonly server: string;
  readonly context: string;
}

/** Returns the error of a call to the API server. */
export function describeApiError(attempt: string, api: ApiServer, error: unknown): CommandError {
  if (error instanceof CommandError) return error;
  const { message, advice } = describeFailure(api, error);
  return new CommandError({ message: `${attempt}: ${message}`, advice, cause: error });
}

function describeFailure({ server, context }: ApiServer, error: unknown): Failure {
  const status = codeOf(error);
  switch (status) {
    case 401:
      return {
        message: "the API server does not accept your credentials (401)",
        advice: ["log in again, or choose another --context"],
      };
    case 403:
      return {
        message: `you have no permission (403)${reasonOf(error)}`,
        advice: [
          "proxyctl needs: list and get on pods and gateways.gateway.networking.k8s.io, get and create on pods/portforward",
          "or reach the proxy without the cluster: --address HOST:PORT of its admin server",
        ],
      };
    case 404:
      return {
        message: `the API server does not know this kind of resource (404)${reasonOf(error)}`,
        advice: ["install the Gateway API's CRDs, or choose another --context"],
      };
    default:
  }
  if (typeof status === "number") {
    return { message: `the API server responded with ${status}${reasonOf(error)}`, advice: ["try again in a moment"] };
  }
  return {
    message: `no response from ${server} (context ${JSON.stringify(context)}): ${rootOf(error)}`,
    advice: ["check with `kubectl version` that the cluster can be reached, or choose another --context"],
  };
}

/**
 * Returns the error of a connection to a port of a pod.
 *
 * @param found the message of the kubelet or of the handshake.
 */
export function describeForwardError(attempt: string, found: string, cause?: unknown): CommandError {
  const text = cause instanceof Error || cause === undefined ? found : handshakeText(cause);
  if (/\b403\b/.test(text)) {
    return new CommandError({
      message: `${attempt}: you have no permission (403)`,
      advice: ["port-forwarding needs the verbs get and create on pods/portforward"],
      cause,
    });
  }
  if (/connection refused/i.test(text)) {
    return new CommandError({
      message: `${attempt}: nothing listens there`,
      advice: ["name the port that it has: --admin-port for the admin server, --port for the listener"],
      cause,
    });
  }
  return new CommandError({
    message: `${attempt}: ${text}`,
    advice: ["check the pod with `kubectl describe pod`"],
    cause,
  });
}

/** Returns the message of a failed handshake. The library passes an event, not an error. */
function handshakeText(event: unknown): string {
  const hasMessage = typeof event === "object" && event !== null && "message" in event;
  return hasMessage ? String(event.message) : String(event);
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

/** Returns the message of a Kubernetes `Status`, which names the missing permission. */
function reasonOf(error: unknown): string {
  const body = error instanceof Error && "body" in error ? error.body : undefined;
  try {
    const status: unknown = typeof body === "string" ? JSON.parse(body) : body;
    const isStatus = typeof status === "object" && status !== null && "message" in status;
    return isStatus && typeof status.message === "string" ? `: ${status.message}` : "";
  } catch {
    return "";
  }
}

/** Returns the message of the root cause: a failed fetch only says "fetch failed". */
function rootOf(error: unknown): string {
  let root = error;
  while (root instanceof Error && root.cause !== undefined) root = root.cause;
  return textOf(root);
}
