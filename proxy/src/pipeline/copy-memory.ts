/**
 * The memory of copies of requests for mirrors. A copy outlives its request by up to the time that a mirror may take,
 * so it has a share of the memory for bodies of its own. A copy without a body has one, too, since it takes a head and
 * a connection.
 *
 * Copies never use more than half of that memory, bodies included, so that slow mirrors reject no request. The mirrors
 * of a namespace hold at most as much of this half as stays free for those of others.
 */
import { memoised } from "@gatewayproxy/runtime/memoised";
import type { BodyBudget, BodyShare } from "./body/body-budget.ts";

const maxPart = 1 / 2;

/** The copies of one worker. */
export class CopyMemory {
  readonly #bodies: BodyBudget;
  /** Bytes by the namespace of the mirror. */
  readonly #held = new Map<string, number>();

  constructor(bodies: BodyBudget) {
    this.#bodies = bodies;
  }

  /**
   * Takes memory for a copy.
   *
   * @param namespace that of the mirror.
   * @param client the address of the client.
   * @returns undefined if there is none.
   */
  open(namespace: string, client: string, bytes: number): CopyShare | undefined {
    const held = this.#heldBy(namespace);
    if (held + bytes > this.#bodies.maxBytes * maxPart - this.#bodies.heldBytes) return undefined;
    const share = this.#bodies.openShare(client);
    if (!share.growTo(bytes)) return undefined;
    const taken = share.bytes;
    this.#held.set(namespace, held + taken);
    return new CopyShare(share, () => this.#give(namespace, taken));
  }

  #heldBy(namespace: string): number {
    return this.#held.get(namespace) ?? 0;
  }

  #give(namespace: string, bytes: number): void {
    const left = this.#heldBy(namespace) - bytes;
    if (left > 0) this.#held.set(namespace, left);
    else this.#held.delete(namespace);
  }
}

/** Returns the copies of the worker with this budget. */
export const copiesOf = memoised((bodies: BodyBudget) => new CopyMemory(bodies));

/** The memory of one copy. */
export class CopyShare {
  readonly #share: BodyShare;
  readonly #onClosed: () => void;

  constructor(share: BodyShare, onClosed: () => void) {
    this.#share = share;
    this.#onClosed = onClosed;
  }

  /** Returns the memory. Has no effect after the first time. */
  close(): void {
    if (this.#share.isEmpty) return;
    this.#share.close();
    this.#onClosed();
  }
}
