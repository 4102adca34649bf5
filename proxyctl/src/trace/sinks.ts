/** The outputs of a trace: lines, JSON Lines, or a full screen. */
import { once } from "node:events";
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import type { Io } from "../io.ts";
import { withJsonEscapes } from "../output/controls.ts";
import { type Styles, stylesFor } from "../output/style.ts";
import { openScreen } from "../terminal/screen.ts";
import { describeEvent, styleOf } from "./describe-event.ts";
import type { ClientResponse } from "./send.ts";
import { emptyView, renderTraceView, withEvent, withKey } from "./trace-view.ts";

/** Receives the events of a trace. */
export interface TraceSink {
  /** `text` is the event as received. */
  readonly event: (event: TraceEvent, text: string) => void;
  /** The response to the client; not called if another client's request was traced. */
  readonly response: (response: ClientResponse) => void;
  /** Called after the last event. Resolves when the user has finished reading. */
  readonly end: () => Promise<void>;
  /** Restores the terminal. Called last, also after a failure. */
  readonly close: () => void;
}

/** Prints only the events, as JSON Lines. */
export function rawSink({ stdout }: Pick<Io, "stdout">): TraceSink {
  return {
    event: (_, text) => stdout.write(`${withJsonEscapes(text)}\n`),
    response: () => undefined,
    end: () => Promise.resolve(),
    close: () => undefined,
  };
}

/** Prints one line per event, and one for the response. */
export function lineSink(io: Pick<Io, "stdout" | "env">): TraceSink {
  const styles = stylesFor(io.stdout, io.env);
  return {
    event: (event) => io.stdout.write(`${renderLine(event, styles)}\n`),
    response: (response) => io.stdout.write(`${renderResponse(response)}\n`),
    end: () => Promise.resolve(),
    close: () => undefined,
  };
}

function renderLine(event: TraceEvent, styles: Styles): string {
  const { time, name, summary } = describeEvent(event);
  return `${styles.faint(time.padStart(10))}   ${name.padEnd(12)}   ${styleOf(event.severity, styles)(summary)}`;
}

/** Renders `response: 200 OK, 512 bytes`. */
export function renderResponse({ status, statusText, bodyBytes }: ClientResponse): string {
  return `response: ${status}${statusText === "" ? "" : ` ${statusText}`}, ${bodyBytes} bytes`;
}

/** Shows the trace in full-screen mode until the user quits. `onQuit` is called if that happens before the end. */
export function screenSink(io: Io, title: string, onQuit: () => void): TraceSink {
  const styles = stylesFor(io.stdout, io.env);
  const quit = new AbortController();
  let state = emptyView(title);
  let hasEnded = false;
  const draw = (): void => screen.draw(renderTraceView(state, screen.size(), styles));
  const screen = openScreen(io, {
    onResize: () => draw(),
    onKey(key) {
      if (key !== "quit") {
        state = withKey(state, key, screen.size());
        draw();
        return;
      }
      if (!hasEnded) onQuit();
      quit.abort();
    },
  });
  draw();
  return {
    event(event) {
      state = withEvent(state, event);
      draw();
    },
    response(response) {
      state = { ...state, title: `${title}   ${renderResponse(response)}` };
      draw();
    },
    async end() {
      hasEnded = true;
      state = { ...state, status: `${state.events.length} events, complete` };
      draw();
      await aborted(AbortSignal.any([quit.signal, io.signal]));
      io.signal.throwIfAborted();
    },
    close: () => screen.close(),
  };
}

function aborted(signal: AbortSignal): Promise<unknown> {
  return signal.aborted ? Promise.resolve() : once(signal, "abort");
}
