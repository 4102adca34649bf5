/** Records one request: waits for the next that matches, lists what happened to it, and shows each event whole. */
import type { TraceEvent, TraceMessage } from "@gatewayproxy/admin-api/trace-event";
import { useEffect, useRef, useState } from "preact/hooks";
import { followTrace } from "../admin.ts";
import { textOf } from "../form.ts";
import { formatMs } from "../format.ts";
import { Failure } from "../parts/failure.tsx";

type Recording =
  | { readonly kind: "idle" }
  | { readonly kind: "waiting" }
  | { readonly kind: "running" }
  | { readonly kind: "ended" }
  | { readonly kind: "failed"; readonly message: string };

export function TracePage() {
  const [recording, setRecording] = useState<Recording>({ kind: "idle" });
  const [events, setEvents] = useState<readonly TraceEvent[]>([]);
  const [selected, setSelected] = useState(0);
  const following = useRef<AbortController>(undefined);
  useEffect(() => () => following.current?.abort(), []);

  const start = (expression: string): void => {
    following.current?.abort();
    const abort = new AbortController();
    following.current = abort;
    setEvents([]);
    setSelected(0);
    followTrace(
      expression,
      {
        onReady: () => setRecording({ kind: "waiting" }),
        onEvent(event) {
          setRecording({ kind: "running" });
          setEvents((earlier) => [...earlier, event]);
        },
      },
      abort.signal,
    ).then(
      () => setRecording(abort.signal.aborted ? { kind: "idle" } : { kind: "ended" }),
      (error: unknown) =>
        setRecording({ kind: "failed", message: error instanceof Error ? error.message : String(error) }),
    );
  };
  const isRecording = recording.kind === "waiting" || recording.kind === "running";
  return (
    <>
      <RecordForm isRecording={isRecording} onStart={start} onStop={() => following.current?.abort()} />
      {recording.kind === "failed" ? (
        <Failure message={recording.message} />
      ) : (
        <p role="status">{describeRecording(recording, events.length)}</p>
      )}
      {events.length > 0 && <Events events={events} selected={selected} onSelect={setSelected} />}
    </>
  );
}

function RecordForm(props: { isRecording: boolean; onStart: (expression: string) => void; onStop: () => void }) {
  const { isRecording, onStart, onStop } = props;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onStart(textOf(event.currentTarget, "expression"));
      }}
    >
      <label for="expression">Only a request for which this CEL expression is true (empty: the next one)</label>
      <input id="expression" name="expression" placeholder='request.path.startsWith("/v1")' spellcheck={false} />
      <button type="submit" disabled={isRecording}>
        Record
      </button>
      <button type="button" disabled={!isRecording} onClick={onStop}>
        Stop
      </button>
    </form>
  );
}

function describeRecording({ kind }: Recording, events: number): string {
  switch (kind) {
    case "waiting":
      return "Waiting for a request…";
    case "running":
      return `Recording: ${events} events so far.`;
    case "ended":
      return `The request has ended: ${events} events.`;
    case "idle":
    case "failed":
      return "Press Record, then send a request.";
  }
}

function Events(props: { events: readonly TraceEvent[]; selected: number; onSelect: (index: number) => void }) {
  const { events, selected, onSelect } = props;
  const shown = events[selected];
  return (
    <div class="trace">
      <ol aria-label="Events">
        {events.map(({ eventStart, severity, message }, index) => (
          <li key={index}>
            <button type="button" aria-pressed={index === selected} class={severity} onClick={() => onSelect(index)}>
              <span class="number">{formatMs(eventStart / 1000)}</span> <strong>{message.type}</strong>{" "}
              {summarize(message)}
            </button>
          </li>
        ))}
      </ol>
      {shown !== undefined && (
        <pre aria-label="Event" tabIndex={0}>
          {JSON.stringify(shown, undefined, 2)}
        </pre>
      )}
    </div>
  );
}

/** What one looks for first in an event. */
function summarize(message: TraceMessage): string {
  switch (message.type) {
    case "requestStarted":
      return `${message.method} ${message.authority}${message.path}`;
    case "routeSelection":
      return message.rule ?? "no route matches";
    case "policySelection":
      return message.policies.map(({ policy }) => policy).join(", ") || "no policy applies";
    case "policy":
      return `${message.policy} ${message.decision}${message.limit === undefined ? "" : ` (${message.before ?? 0} of ${message.limit} used before)`}`;
    case "backendCallStart":
      return `${message.backend} at ${message.target}`;
    case "backendCallResult":
      return message.error ?? String(message.status ?? "no answer");
    case "llmUsage":
      return message.uncounted ?? `${message.totalTokens ?? 0} tokens`;
    case "requestFinished":
      return `${message.status}${message.reason === undefined ? "" : ` ${message.reason}`}`;
  }
}
