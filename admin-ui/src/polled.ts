/** An answer of the admin server that is asked for again and again while somebody looks at it. */
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { type AdminFailure, getJson, toFailure } from "./admin.ts";

export interface Polled<Answer> {
  /** The last answer; undefined until there is one. */
  readonly answer: Answer | undefined;
  /** Why the last attempt failed; undefined when it did not. */
  readonly failure: AdminFailure | undefined;
}

/** An answer that takes longer is none. */
const patienceMs = 10_000;

/** An answer that is longer is asked for that many times more rarely: a dump of thousands of routes is work to make. */
const easyLength = 1_000_000;

/** Whether the reader has paused all updates. */
export const Paused = createContext(false);

/**
 * Asks at once and then every `everyMs`, more rarely where the answer is very long, each time after the answer before.
 * Rests while the page is hidden or paused.
 */
export function usePolled<Answer>(path: string, everyMs: number): Polled<Answer> {
  const isPaused = useContext(Paused);
  const [state, setState] = useState<Polled<Answer>>({ answer: undefined, failure: undefined });
  useEffect(() => {
    if (isPaused) return undefined;
    return poll(async (signal) => {
      try {
        const { answer, length } = await getJson<Answer>(
          path,
          AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]),
        );
        if (!signal.aborted) setState({ answer, failure: undefined });
        return everyMs * Math.max(1, length / easyLength);
      } catch (error) {
        if (!signal.aborted) setState(({ answer }) => ({ answer, failure: toFailure(error) }));
        return everyMs;
      }
    });
  }, [path, everyMs, isPaused]);
  return state;
}

/** Calls `ask` until the returned function is called. It gives the milliseconds to wait for, and must not reject. */
function poll(ask: (signal: AbortSignal) => Promise<number>): () => void {
  const stopped = new AbortController();
  let timer = 0;
  let isAsking = false;
  const next = async (): Promise<void> => {
    clearTimeout(timer);
    if (document.hidden || isAsking) return;
    isAsking = true;
    const waitMs = await ask(stopped.signal);
    isAsking = false;
    if (!stopped.signal.aborted) timer = window.setTimeout(() => void next(), waitMs);
  };
  document.addEventListener("visibilitychange", () => void next(), { signal: stopped.signal });
  void next();
  return () => {
    stopped.abort();
    clearTimeout(timer);
  };
}
