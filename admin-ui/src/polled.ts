/** Polls the admin server while the page is visible. */
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { type AdminFailure, getJson, toFailure } from "./admin.ts";

/** The state of a polled resource. */
export interface Polled<Data> {
  /** The last response; undefined until there is one. */
  readonly data: Data | undefined;
  /** Why the last attempt failed; undefined if it did not. */
  readonly failure: AdminFailure | undefined;
}

/** The timeout of a request. */
const timeoutMs = 10_000;

/** A longer response is polled that many times less often: a dump of thousands of routes is expensive. */
const easyLength = 1_000_000;

/** Whether the reader has paused all updates. */
export const Paused = createContext(false);

/**
 * Fetches at once and then every `everyMs` after the previous response; less often if the response is very long. Pauses
 * while the page is hidden or paused.
 */
export function usePolled<Data>(path: string, everyMs: number): Polled<Data> {
  const isPaused = useContext(Paused);
  const [state, setState] = useState<Polled<Data>>({ data: undefined, failure: undefined });
  useEffect(() => {
    if (isPaused) return undefined;
    return poll(async (signal) => {
      try {
        const { data, length } = await getJson<Data>(path, AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]));
        if (!signal.aborted) setState({ data, failure: undefined });
        return everyMs * Math.max(1, length / easyLength);
      } catch (error) {
        if (!signal.aborted) setState(({ data }) => ({ data, failure: toFailure(error) }));
        return everyMs;
      }
    });
  }, [path, everyMs, isPaused]);
  return state;
}

/** Calls `ask` until the returned function is called. `ask` returns the milliseconds to wait, and must not reject. */
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
