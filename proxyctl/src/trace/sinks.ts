/** Where a trace goes: lines, JSON Lines, or a terminal that is taken over. */
import { once } from "node:events";
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import type { Io } from "../io.ts";
import { withJsonEscapes } from "../output/controls.ts";
import { type Styles, stylesFor } from "../output/style.ts";
import { openScreen } from "../terminal/screen.ts";
import { describeEvent, styleOf } from "./describe-event.ts";
import type { Answer } from "./send.ts";
import { emptyView, renderTraceView, withEvent, withKey } from "./trace-view.ts";

/** Receives a trace as it comes. */
export interface TraceSink {
  /** `text` is the event as it came. */
  readonly event: (event: TraceEvent, text: string) => void;
  /** The client's side of it; not called where somebody else's request was traced. */
  readonly answer: (answer: Answer) => void;
  /** No more events will come; resolves when whoever looks at them has seen enough. */
  readonly end: () => Promise<void>;
  /** Gives back whatever was taken; comes last, after a failure too. */
  readonly close: () => void;
}

/** The events as JSON Lines, and nothing else. */
export function rawSink({ stdout }: Pick<Io, "stdout">): TraceSink {
  return {
    event: (_, text) => stdout.write(`${withJsonEscapes(text)}\n`),
    answer: () => undefined,
    end: () => Promise.resolve(),
    close: () => undefined,
  };
}

/** One line per event, and one for the answer. */
export function lineSink(io: Pick<Io, "stdout" | "env">): TraceSink {
  const styles = stylesFor(io.stdout, io.env);
  return {
    event: (event) => io.stdout.write(`${renderLine(event, styles)}\n`),
    answer: (answer) => io.stdout.write(`${renderAnswer(answer)}\n`),
    end: () => Promise.resolve(),
    close: () => undefined,
  };
}

function renderLine(event: TraceEvent, styles: Styles): string {
  const { time, name, summary } = describeEvent(event);
  return `${styles.faint(time.padStart(10))}   ${name.padEnd(12)}   ${styleOf(event.severity, styles)(summary)}`;
}

/** `answer: 200 OK, 512 bytes`. */
export function renderAnswer({ status, statusText, bodyBytes }: Answer): string {
  return `answer: ${status}${statusText === "" ? "" : ` ${statusText}`}, ${bodyBytes} bytes`;
}

/** Takes the terminal over until the user quits; `onQuit` is called when that happens before the end. */
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
    answer(answer) {
      state = { ...state, title: `${title}   ${renderAnswer(answer)}` };
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
