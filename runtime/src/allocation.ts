/**
 * Where the engine puts new objects. V8 notes which places in the code make objects that last, and from then on has those
 * places make them in the old generation. A server that was idle teaches it wrong: its nursery has shrunk, so that at the
 * first burst nearly everything in it is still in use. What is made in the old generation from then on is garbage a
 * moment later that only a full collection finds, and so is all that it refers to: every request costs half as much again,
 * and a pause of 20 ms is no rarity, for minutes.
 */
import { setFlagsFromString } from "node:v8";

/** Has every thread make its objects in the nursery. To be called before threads are started and code is loaded. */
export function allocateYoung(): void {
  setFlagsFromString("--no-allocation-site-pretenuring");
}
