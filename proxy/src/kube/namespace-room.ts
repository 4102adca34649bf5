/**
 * Counts what the objects of each namespace take of the memory, against a maximum. Those without room are left out, and
 * are listed again once there may be room. Every process reads the objects of all namespaces: without a maximum, those
 * of one tenant end it, at every start again.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

/** The objects of a kind in a namespace. */
export interface Place<Kind extends string = string> {
  readonly kind: Kind;
  readonly namespace: string;
}

/** Options of a `NamespaceRoom`. */
export interface RoomOptions<Kind extends string> {
  /** The kinds whose objects have the room together. */
  readonly kinds: readonly Kind[];
  /** The maximum of one namespace, in bytes. */
  readonly maxBytes: number;
  /** What several rooms have together beside the part that this one has for itself; absent: nothing. */
  readonly shared?: { readonly room: SharedRoom; readonly ownBytes: number };
  /** Whether objects of a kind wait for room, beside those that are left out. Default: none do. */
  readonly areWaiting?: (kind: Kind, namespace: string) => boolean;
}

/** The maximum that several rooms have together in one namespace. */
export class SharedRoom {
  readonly #maxBytes: number;
  readonly #used = new NumbersByKey();
  readonly #rooms: { readonly freed: (namespace: string) => void }[] = [];

  /** @param maxBytes of one namespace. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Adds a room of which to report that there may be more of it. */
  add(room: { readonly freed: (namespace: string) => void }): void {
    this.#rooms.push(room);
  }

  /** Whether a namespace may take so much more. */
  has(namespace: string, bytes: number): boolean {
    return this.#used.of(namespace) + bytes <= this.#maxBytes;
  }

  /** Counts a change of what a namespace takes. */
  count(namespace: string, change: number): void {
    if (change !== 0) this.#used.add(namespace, change);
    if (change < 0) for (const room of this.#rooms) room.freed(namespace);
  }
}

/** The room of each namespace for the objects of some kinds. */
export class NamespaceRoom<Kind extends string = string> {
  readonly #options: RoomOptions<Kind>;
  readonly #used = new NumbersByKey();
  /** The namespaces with objects that are not kept, by kind. */
  readonly #leftOut = new Map<Kind, Set<string>>();
  /** Namespaces in which there may be room for objects that have none. */
  readonly #freed = new Set<string>();

  constructor(options: RoomOptions<Kind>) {
    this.#options = options;
    options.shared?.room.add(this);
  }

  /** Whether an object has room, if one that it replaces took `before`. */
  has(namespace: string, bytes: number, before = 0): boolean {
    const { maxBytes, shared } = this.#options;
    const used = this.#used.of(namespace);
    const change = bytes - before;
    if (used + change > maxBytes) return false;
    return shared === undefined || shared.room.has(namespace, this.#sharedChange(used, used + change));
  }

  /** Counts a change of what a namespace takes. */
  count(namespace: string, change: number): void {
    if (change === 0) return;
    const used = this.#used.of(namespace);
    this.#used.add(namespace, change);
    this.#options.shared?.room.count(namespace, this.#sharedChange(used, used + change));
    if (change < 0) this.freed(namespace);
  }

  /** Returns by how much what the namespace takes of the shared room changes. */
  #sharedChange(before: number, after: number): number {
    const own = this.#options.shared?.ownBytes ?? 0;
    return Math.max(0, after - own) - Math.max(0, before - own);
  }

  /** An object of a kind is not kept. */
  leaveOut(kind: Kind, namespace: string): void {
    this.#leftOut.set(kind, (this.#leftOut.get(kind) ?? new Set()).add(namespace));
  }

  /** Whether objects of a kind are left out, so that it is unknown whether another one exists. */
  leavesOut(kind: Kind, namespace: string): boolean {
    return this.#leftOut.get(kind)?.has(namespace) === true;
  }

  /** A list of all objects of a kind begins, or of those in a namespace. It finds those that are left out. */
  beginList(kind: Kind, namespace?: string): void {
    if (namespace === undefined) this.#leftOut.delete(kind);
    else this.#leftOut.get(kind)?.delete(namespace);
  }

  /** The places with objects that are left out. */
  *leftOut(): Iterable<Place<Kind>> {
    for (const [kind, namespaces] of this.#leftOut) for (const namespace of namespaces) yield { kind, namespace };
  }

  /** There may be room in a namespace now. */
  freed(namespace: string): void {
    if (this.#options.kinds.some((kind) => this.#isWanted(kind, namespace))) this.#freed.add(namespace);
  }

  /** Whether there may be room now for objects that had none. */
  get hasFreed(): boolean {
    return this.#freed.size > 0;
  }

  /** Returns the places with objects for which there may be room now, which are to be listed again. */
  takeFreed(): readonly Place<Kind>[] {
    const freed = [...this.#freed];
    this.#freed.clear();
    const places = this.#options.kinds.flatMap((kind) => freed.map((namespace) => ({ kind, namespace })));
    return places.filter(({ kind, namespace }) => this.#isWanted(kind, namespace));
  }

  #isWanted(kind: Kind, namespace: string): boolean {
    return this.leavesOut(kind, namespace) || this.#options.areWaiting?.(kind, namespace) === true;
  }
}

/** Sums by key. Those of 0 take no memory. */
export class NumbersByKey {
  readonly #sums = new Map<string, number>();

  keys(): Iterable<string> {
    return this.#sums.keys();
  }

  of(key: string): number {
    return this.#sums.get(key) ?? 0;
  }

  add(key: string, change: number): void {
    const sum = this.of(key) + change;
    if (sum > 0) this.#sums.set(key, sum);
    else this.#sums.delete(key);
  }
}

/** The minimum time between two lists of what had no room: edits can make room at any time, and a list takes long. */
const listAgainMs = 30_000;

/** Options of `FreedLists`. */
export interface FreedListsOptions<Kind extends string> {
  /** The clock of the time between lists. */
  readonly clock: Clock;
  /** The rooms of all kinds. */
  readonly rooms: readonly Pick<NamespaceRoom<Kind>, "hasFreed" | "takeFreed">[];
  /** Lists the objects of a kind in some namespaces. */
  readonly listAgain: (kind: Kind, namespaces: readonly string[]) => void;
  /** Called when something may be listed again. */
  readonly onDue: () => void;
}

/** Lists objects again that had no room, once there may be room for them. */
export class FreedLists<Kind extends string> {
  readonly #options: FreedListsOptions<Kind>;
  #listedMs = Number.NEGATIVE_INFINITY;
  #timer: Timer | undefined;

  constructor(options: FreedListsOptions<Kind>) {
    this.#options = options;
  }

  /** Lists what is freed, if need be later. */
  use(): void {
    const { clock, rooms, listAgain, onDue } = this.#options;
    this.#timer?.cancel();
    const freed = rooms.filter(({ hasFreed }) => hasFreed);
    if (freed.length === 0) return;
    const leftMs = this.#listedMs + listAgainMs - clock.monotonicMs();
    if (leftMs > 0) {
      this.#timer = clock.setTimer(leftMs, onDue);
      return;
    }
    this.#listedMs = clock.monotonicMs();
    const places = freed.flatMap((room) => room.takeFreed());
    for (const [kind, ofKind] of Map.groupBy(places, (place) => place.kind)) {
      listAgain(
        kind,
        ofKind.map(({ namespace }) => namespace),
      );
    }
  }

  /** Lists nothing more. */
  close(): void {
    this.#timer?.cancel();
  }
}
