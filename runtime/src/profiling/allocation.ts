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

/**
 * Makes V8 count the memory of buffers in the limit at which it collects the whole heap. Without it, V8 starts a full
 * collection whenever 64 MiB of buffers were allocated since the last one. A body of 100 MB is read through buffers of
 * 64 KiB, and nearly all of them are garbage by then, but each collection also marks the whole heap. The limit adapts
 * to what is in use, so the garbage stays bounded. Call it before threads are started.
 */
export function countBuffersInHeapLimit(): void {
  setFlagsFromString("--external-memory-accounted-in-global-limit");
}
