/**
 * Counts what the objects of each namespace take of the memory, against a maximum. Those without room are left out, and
 * are listed again once there may be room. Every process reads the objects of all namespaces: without a maximum, those
 * of one tenant end it, at every start again.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { NumbersByKey } from "./numbers-by-key.ts";
import type { TotalPart, TotalRoom } from "./total-room.ts";

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
  /** What all namespaces have together; absent: no maximum. */
  readonly total?: TotalRoom;
  /** Leaves objects out until a namespace takes at most `maxBytes`, because others need the room. Default: none are. */
  readonly onCut?: (namespace: string, maxBytes: number) => void;
  /** Whether objects of a kind wait for room, beside those that are left out. Default: none do. */
  readonly areWaiting?: (kind: Kind, namespace: string) => boolean;
}

/** The maximum that several rooms have together in one namespace. */
export class SharedRoom {
  readonly #maxBytes: number;
  readonly #used = new NumbersByKey();
  readonly #rooms: { readonly shrunk: (namespace: string) => void }[] = [];

  /** @param maxBytes of one namespace. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Adds a room of which to report that there may be more of it. */
  add(room: { readonly shrunk: (namespace: string) => void }): void {
    this.#rooms.push(room);
  }

  /** Whether a namespace may take so much more. */
  has(namespace: string, bytes: number): boolean {
    return this.#used.of(namespace) + bytes <= this.#maxBytes;
  }

  /** Counts a change of what a namespace takes. */
  count(namespace: string, change: number): void {
    if (change !== 0) this.#used.add(namespace, change);
    if (change < 0) for (const room of this.#rooms) room.shrunk(namespace);
  }
}

/** The room of each namespace for the objects of some kinds. */
export class NamespaceRoom<Kind extends string = string> {
  readonly #options: RoomOptions<Kind>;
  readonly #used = new NumbersByKey();
  /** The namespaces with objects that are not kept, by kind. */
  readonly #leftOut = new Map<Kind, Set<string>>();
  /** The smallest object of a kind that has no room, in bytes, by kind and namespace. */
  readonly #smallest = new Map<Kind, Map<string, number>>();
  /** Namespaces in which there may be room for objects that have none. */
  readonly #freed = new Set<string>();
  /** Namespaces that take less than before. */
  readonly #shrunk = new Set<string>();
  readonly #part: TotalPart;
  /** Whether there is more room of all namespaces together. */
  #isTotalFreed = false;

  constructor(options: RoomOptions<Kind>) {
    this.#options = options;
    const { shared, total, onCut = () => undefined } = options;
    shared?.room.add(this);
    this.#part = { leaveOut: onCut, freed: () => (this.#isTotalFreed = true) };
    total?.add(this.#part);
  }

  /**
   * Whether an object has room, if one that it replaces took `before`.
   *
   * @param isAgain whether it had none before, as `TotalRoom.has`.
   */
  has(namespace: string, bytes: number, before = 0, isAgain = false): boolean {
    const { total } = this.#options;
    if (!this.hasOwn(namespace, bytes, before)) return false;
    return total === undefined || total.has(this.#part, namespace, bytes - before, isAgain);
  }

  /** The same, whatever other namespaces take. */
  hasOwn(namespace: string, bytes: number, before = 0): boolean {
    const { maxBytes, shared } = this.#options;
    const used = this.#used.of(namespace);
    const change = bytes - before;
    if (used + change > maxBytes) return false;
    return shared === undefined || shared.room.has(namespace, this.#sharedChange(used, used + change));
  }

  /** What a namespace takes. */
  usedBy(namespace: string): number {
    return this.#used.of(namespace);
  }

  /** Counts a change of what a namespace takes. */
  count(namespace: string, change: number): void {
    if (change === 0) return;
    const used = this.#used.of(namespace);
    this.#used.add(namespace, change);
    this.#options.shared?.room.count(namespace, this.#sharedChange(used, used + change));
    if (change < 0) this.shrunk(namespace);
    this.#options.total?.count(this.#part, namespace, change);
  }

  /** Returns by how much what the namespace takes of the shared room changes. */
  #sharedChange(before: number, after: number): number {
    const own = this.#options.shared?.ownBytes ?? 0;
    return Math.max(0, after - own) - Math.max(0, before - own);
  }

  /** An object of a kind has no room. */
  reject(kind: Kind, namespace: string, bytes: number): void {
    const smallest = this.#smallest.get(kind) ?? new Map<string, number>();
    this.#smallest.set(kind, smallest.set(namespace, Math.min(bytes, smallest.get(namespace) ?? bytes)));
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
    // Objects without room that are kept are read again by the list of their namespace only.
    if (namespace !== undefined) this.#smallest.get(kind)?.delete(namespace);
  }

  /** The places with objects that are left out. */
  *leftOut(): Iterable<Place<Kind>> {
    for (const [kind, namespaces] of this.#leftOut) for (const namespace of namespaces) yield { kind, namespace };
  }

  /** The objects of a namespace are to be listed again, if some have no room. */
  freed(namespace: string): void {
    if (this.#options.kinds.some((kind) => this.#isWanted(kind, namespace))) this.#freed.add(namespace);
  }

  /** What a namespace takes has become less. */
  shrunk(namespace: string): void {
    if (this.#options.kinds.some((kind) => this.#isWanted(kind, namespace))) this.#shrunk.add(namespace);
  }

  /** Whether there may be room now for objects that had none. */
  get hasFreed(): boolean {
    this.#findFreed();
    return this.#freed.size > 0;
  }

  #findFreed(): void {
    for (const { kind, namespace } of this.#withMoreRoom()) {
      if (this.#hasRoomOf(kind, namespace)) this.#freed.add(namespace);
    }
    this.#shrunk.clear();
    this.#isTotalFreed = false;
  }

  /** Returns the places with objects that have no room, in namespaces that may have more of it than before. */
  #withMoreRoom(): readonly Place<Kind>[] {
    const { kinds } = this.#options;
    const shrunk = [...this.#shrunk].flatMap((namespace) => kinds.map((kind) => ({ kind, namespace })));
    if (!this.#isTotalFreed) return shrunk;
    const rejected = [...this.#smallest].flatMap(([kind, smallest]) => {
      for (const namespace of smallest.keys()) if (!this.#isWanted(kind, namespace)) smallest.delete(namespace);
      return Array.from(smallest.keys(), (namespace) => ({ kind, namespace }));
    });
    return [...shrunk, ...rejected];
  }

  /** Whether there is room for the smallest object that has none. */
  #hasRoomOf(kind: Kind, namespace: string): boolean {
    const smallest = this.#smallest.get(kind)?.get(namespace) ?? 0;
    return this.#isWanted(kind, namespace) && this.has(namespace, smallest, 0, true);
  }

  /** Returns the places with objects for which there may be room now, which are to be listed again. */
  takeFreed(): readonly Place<Kind>[] {
    this.#findFreed();
    const freed = [...this.#freed];
    this.#freed.clear();
    const places = this.#options.kinds.flatMap((kind) => freed.map((namespace) => ({ kind, namespace })));
    return places.filter(({ kind, namespace }) => this.#isWanted(kind, namespace));
  }

  #isWanted(kind: Kind, namespace: string): boolean {
    return this.leavesOut(kind, namespace) || this.#options.areWaiting?.(kind, namespace) === true;
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
