/**
 * The TLS and TCP listeners of one bind, and the connections that are relayed for them. The server name of a connection
 * decides to which listener it belongs, over TLS and HTTPS listeners alike: the most specific host name first.
 */
import type { Bind } from "../ir/snapshot.ts";
import type { AcceptedStream, SecuredStream, StreamReceiver } from "../listen/stream-receiver.ts";
import type { TlsListener } from "../listen/tls-termination.ts";
import { HostTable } from "../routing/host-table.ts";
import type { StreamEnd } from "../telemetry/stream-record.ts";
import type { CompiledStreamListener } from "./compiled-stream-route.ts";
import { StreamConnection, type StreamPlace } from "./stream-connection.ts";
import type { StreamServices } from "./stream-services.ts";

/** The listeners of the current snapshot, and the connections of all snapshots. */
export class BindStreams implements StreamReceiver {
  readonly #services: StreamServices;
  readonly #live = new Set<StreamConnection>();
  #names = new HostTable<CompiledStreamListener | "http">();
  #byKey: ReadonlyMap<string, CompiledStreamListener> = new Map();
  #passesTls = false;
  /** Called when no connection is left. */
  #onEmpty: (() => void) | undefined;
  /** As `StreamReceiver.readsHello`. */
  readsHello = false;
  /** As `StreamReceiver.terminated`. */
  terminated: readonly TlsListener[] = [];

  constructor(services: StreamServices) {
    this.#services = services;
  }

  /** The open connections. */
  get live(): Iterable<StreamConnection> {
    return this.#live;
  }

  /**
   * Takes the listeners of a snapshot. Closes the connections whose route has left its listener, or no longer refers to
   * their backend.
   *
   * @param compiled the stream listeners of `bind`.
   */
  update({ listeners, streams = [] }: Bind, compiled: readonly CompiledStreamListener[]): void {
    const names = new HostTable<CompiledStreamListener | "http">();
    for (const { hostname } of listeners) names.add(hostname, "http");
    for (const [at, { hostname }] of streams.entries()) {
      const listener = compiled[at];
      if (listener !== undefined) names.add(hostname, listener);
    }
    this.#names = names;
    this.#byKey = new Map(compiled.map((listener) => [listener.key, listener]));
    this.#passesTls = compiled.some(({ passesTls }) => passesTls);
    this.readsHello = streams.some(({ protocol }) => protocol === "TLS");
    this.terminated = streams.flatMap(({ key, hostname, tls }) =>
      tls === undefined ? [] : [{ key, tls, ...(hostname !== undefined && { hostname }) }],
    );
    for (const connection of [...this.#live]) if (!this.#isServed(connection)) connection.close("RouteChanged");
  }

  #isServed({ record: { listener = "", route = "", backend } }: StreamConnection): boolean {
    const found = this.#byKey.get(listener)?.byKey.get(route);
    return found !== undefined && !found.isClosed && (backend === undefined || found.backends.has(backend));
  }

  /** Whether the host of a request belongs to a TLS listener, so that no HTTPS listener serves it. */
  hasHost(authority: string): boolean {
    if (!this.readsHello) return false;
    const found = this.#names.find(authority);
    return found !== undefined && found !== "http";
  }

  /** As `StreamReceiver.onStream`. */
  onStream(accepted: AcceptedStream): "http" | SecuredStream | "taken" {
    const place = this.#placeOf(accepted);
    if (place === "http") return "http";
    const connection = new StreamConnection(this.#services, accepted, place, (over) => this.#forget(over));
    this.#live.add(connection);
    if (!connection.admit()) return "taken";
    if (place.listener?.protocol === "TLS" && !place.passesTls) return connection;
    connection.start();
    return "taken";
  }

  #placeOf({ hello }: AcceptedStream): StreamPlace | "http" {
    const unknown = { listener: undefined, route: undefined, passesTls: this.#passesTls };
    if (hello?.kind === "invalid") return unknown;
    const name = hello?.serverName ?? "";
    const listener = this.#names.find(name);
    if (listener === "http") return listener;
    return listener === undefined
      ? unknown
      : { listener, route: listener.routes.find(name), passesTls: listener.passesTls };
  }

  /** Reports bytes, and closes idle connections. @param nowMs monotonic. */
  sweep(nowMs: number): void {
    for (const connection of [...this.#live]) connection.sweep(nowMs);
  }

  #forget(connection: StreamConnection): void {
    this.#live.delete(connection);
    if (this.#live.size === 0) this.#onEmpty?.();
  }

  /**
   * Resolves when both sides of every connection are closed, and all are recorded. To be called when none is accepted
   * any more.
   */
  async drain(): Promise<void> {
    if (this.#live.size > 0) await new Promise<void>((resolve) => (this.#onEmpty = resolve));
  }

  /** Closes all connections at once. */
  close(reason: StreamEnd): void {
    for (const connection of [...this.#live]) connection.close(reason);
  }
}
