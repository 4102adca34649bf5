/**
 * The calls to one endpoint that wait for a connection with room. Clients take turns, and the calls of one client are
 * served in the order in which they came, so that a client with many calls does not delay the few of another one.
 *
 * None waits longer than is allowed: a client that is told at once can go elsewhere, and one that is served after its
 * patience ended was served for nothing.
 */
import { Readable } from "node:stream";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { UpstreamCall, UpstreamRequest } from "./call.ts";

export interface WaitingCall {
  readonly call: UpstreamCall;
  readonly request: UpstreamRequest;
}

export interface WaitingLineOptions {
  readonly clock: Clock;
  readonly maxWaitMs: number;
  /** Counts the calls that wait, those of the backend's other endpoints too. */
  readonly load: { waiting: number };
  /** Message of the failure of a call that has waited in vain. */
  readonly failure: string;
}

interface Place extends WaitingCall {
  readonly untilMs: number;
}

export class WaitingLine {
  readonly #options: WaitingLineOptions;
  /** In the order in which they came, which is that of their ends. */
  readonly #places = new Map<UpstreamCall, Place>();
  /** By client; the one whose turn it is first. None is empty. */
  readonly #clients = new Map<string | undefined, Map<UpstreamCall, Place>>();
  /** For the first place; every other one's time ends later. */
  #timer: Timer | undefined;

  constructor(options: WaitingLineOptions) {
    this.#options = options;
  }

  join(call: UpstreamCall, request: UpstreamRequest): void {
    const { clock, maxWaitMs, load } = this.#options;
    const place = { call, request, untilMs: clock.monotonicMs() + maxWaitMs };
    this.#places.set(call, place);
    const own = this.#clients.get(request.client);
    if (own === undefined) this.#clients.set(request.client, new Map([[call, place]]));
    else own.set(call, place);
    load.waiting++;
    this.#timer ??= clock.setTimer(maxWaitMs, () => this.#expire());
  }

  /** The one whose turn it is; it stays in line. */
  get first(): WaitingCall | undefined {
    return this.#clients.values().next().value?.values().next().value;
  }

  /** The call has its connection, and its client's next turn comes after those of the others. Harmless for others. */
  leave(call: UpstreamCall): void {
    const place = this.#places.get(call);
    if (place === undefined) return;
    this.#places.delete(call);
    const { client } = place.request;
    const own = this.#clients.get(client);
    own?.delete(call);
    this.#clients.delete(client);
    if (own !== undefined && own.size > 0) this.#clients.set(client, own);
    this.#options.load.waiting--;
    if (this.#places.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** As `EndpointPool.makeRoomFor`. */
  makeRoomFor(client: string | undefined): boolean {
    let longest: ReadonlyMap<UpstreamCall, Place> | undefined;
    for (const calls of this.#clients.values()) if (calls.size > (longest?.size ?? 0)) longest = calls;
    if (longest === undefined || longest.size <= (this.#clients.get(client)?.size ?? 0) + 1) return false;
    const last = [...longest.keys()].at(-1);
    last?.fail({ kind: "overloaded", message: "the call of a client with fewer calls waits in its place" });
    return true;
  }

  /** The call is over before it was sent. */
  forget(call: UpstreamCall): void {
    const body = this.#places.get(call)?.request.body;
    if (body instanceof Readable) body.destroy();
    this.leave(call);
  }

  /** Ends those whose time is over, which takes them out of line, and waits for the next. */
  #expire(): void {
    const { clock, failure } = this.#options;
    this.#timer = undefined;
    const nowMs = clock.monotonicMs();
    for (const { call, untilMs } of this.#places.values()) {
      if (untilMs > nowMs) {
        this.#timer = clock.setTimer(untilMs - nowMs, () => this.#expire());
        return;
      }
      call.fail({ kind: "overloaded", message: failure });
    }
  }
}
