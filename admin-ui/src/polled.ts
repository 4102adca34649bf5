/** An answer of the admin server that is asked for again and again while somebody looks at it. */
import { useEffect, useState } from "preact/hooks";
import { getJson } from "./admin.ts";

export interface Polled<Answer> {
  /** The last answer; undefined until there is one. */
  readonly answer: Answer | undefined;
  /** Why the last attempt failed; undefined when it did not. */
  readonly failure: string | undefined;
}

/** Asks at once and then every `everyMs`, each time after the answer before; rests while the page is hidden. */
export function usePolled<Answer>(path: string, everyMs: number): Polled<Answer> {
  const [state, setState] = useState<Polled<Answer>>({ answer: undefined, failure: undefined });
  useEffect(() => {
    const stopped = new AbortController();
    let timer = 0;
    const ask = async (): Promise<void> => {
      try {
        if (!document.hidden) setState({ answer: await getJson<Answer>(path, stopped.signal), failure: undefined });
      } catch (error) {
        if (stopped.signal.aborted) return;
        setState(({ answer }) => ({ answer, failure: error instanceof Error ? error.message : String(error) }));
      }
      if (!stopped.signal.aborted) timer = window.setTimeout(() => void ask(), everyMs);
    };
    void ask();
    return () => {
      stopped.abort();
      clearTimeout(timer);
    };
  }, [path, everyMs]);
  return state;
}
