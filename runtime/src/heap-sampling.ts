/**
 * Samples of what a thread allocates, from its start on, so that a heap profile can name at any time what is alive: V8
 * knows the stack of an allocation only if it looked when it happened. What has been collected is dropped from the samples.
 */
import { Session } from "node:inspector";

/** Bytes between samples, on average. A request costs a stack walk every few dozen requests. */
export const samplingInterval = 524_288;

let session: Session | undefined;

/** Begins to sample the thread that calls, for good. To be called before what should be named is loaded. */
export function startHeapSampling(): void {
  if (session !== undefined) return;
  session = new Session();
  session.connect();
  session.post("HeapProfiler.startSampling", { samplingInterval });
}

/** What is alive in the thread that calls, by stack, as V8's JSON text. Throws where sampling has not begun. */
export function readHeapSamples(): string {
  if (session === undefined) throw new Error("this thread has not called startHeapSampling");
  let text: string | undefined;
  // Of a session of the own thread the answer comes before `post` returns.
  session.post("HeapProfiler.getSamplingProfile", (error, answer) => {
    if (error !== null) throw error;
    text = JSON.stringify(answer.profile);
  });
  if (text === undefined) throw new Error("V8 gave no samples");
  return text;
}
