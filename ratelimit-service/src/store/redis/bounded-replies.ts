/**
 * Bounds what the connections of the client library keep of replies. The library has no option for its sockets, so they
 * are found on the diagnostics channel on which Node publishes every socket that a client creates.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import { toError } from "@gatewayproxy/runtime/thrown-value";
import type { RedisLink } from "./redis-link.ts";
import { ReplySplitter } from "./reply-splitter.ts";

/** The shortest command, `PING`, as it is written. A server sends at most one reply for each. */
const minCommandBytes = 14;
/** Replies without a command that a connection may get: messages of sentinels on a connection that lasts for years. */
const maxUnaskedReplies = 10_000;

/** Set while the client library works: in calls of it, and in everything that follows from them. */
const isClient = new AsyncLocalStorage<true>();

subscribe("net.client.socket", (message) => {
  // The channel is documented to publish `{ socket }`.
  if (isClient.getStore() === true) boundSocket((message as { readonly socket: Socket }).socket);
});

/**
 * Returns the link with bounds: a connection is closed with an error when its server sends a reply that is malformed or
 * exceeds the bounds of `ReplySplitter`, or replies that nothing asked for.
 */
export function withBoundedReplies(link: RedisLink): RedisLink {
  // Whatever opens a connection, now or later, begins with one of these calls.
  return {
    connections: link.connections,
    open: () => isClient.run(true, () => link.open()),
    isReady: () => link.isReady(),
    send: (key, command) => isClient.run(true, () => link.send(key, command)),
    connectionOf: (key) => link.connectionOf(key),
    activeConnections: () =>
      link.activeConnections().map(({ name, ping }) => ({ name, ping: () => isClient.run(true, ping) })),
    reset: () => isClient.run(true, () => link.reset()),
    close: () => isClient.run(true, () => link.close()),
  };
}

/** A listener of the event `data`. */
type OnData = (chunk: Buffer | string) => void;

function boundSocket(socket: Socket): void {
  socket.on("newListener", function onListener(event, listener: OnData) {
    if (event !== "data") return;
    socket.off("newListener", onListener);
    // The event precedes the listener, and no data comes before the end of the microtasks.
    queueMicrotask(() => {
      if (!socket.listeners("data").includes(listener)) return;
      socket.on("data", passWholeReplies(socket, listener));
      socket.off("data", listener);
    });
  });
}

function passWholeReplies(socket: Socket, listener: OnData): OnData {
  const splitter = new ReplySplitter();
  let maxReplies = maxUnaskedReplies;
  return (chunk) => {
    try {
      const whole = splitter.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk);
      if (splitter.replies > maxReplies) {
        maxReplies = socket.bytesWritten / minCommandBytes + maxUnaskedReplies;
        if (splitter.replies > maxReplies) throw new RangeError("the server sent more replies than it got commands");
      }
      if (whole !== undefined) listener(whole);
    } catch (error) {
      socket.destroy(toError(error));
    }
  };
}
