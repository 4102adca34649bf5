/**
 * Keeps V8 from allocating new objects in the old generation. V8 records which allocation sites create long-lived
 * objects, and then allocates their objects in the old generation ("pretenuring"). After an idle time these records are
 * wrong: the young generation has shrunk, so at the first burst nearly everything in it is still in use. From then on
 * those sites fill the old generation with short-lived objects, which only a full collection frees. Collections get
 * longer and requests take more CPU, for minutes.
 */
import { setFlagsFromString } from "node:v8";

/** Makes all threads allocate in the young generation. Call it before threads are started and code is loaded. */
export function disablePretenuring(): void {
  setFlagsFromString("--no-allocation-site-pretenuring");
}
