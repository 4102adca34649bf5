/** Traces one request: waits for the next one that matches, lists its events, and shows each event in full. */
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import { describeMessage } from "@gatewayproxy/admin-api/describe-message";
import { traceUrl } from "@gatewayproxy/admin-api/trace-url";
import { useEffect, useRef, useState } from "preact/hooks";
import { followTrace, toFailure } from "../admin.ts";
import { textOf } from "../form.ts";
import { counted, formatMs } from "../format.ts";
import { Alert } from "../parts/failure.tsx";

type Recording =
  | { readonly kind: "idle" }
  | { readonly kind: "waiting" }
  | { readonly kind: "running" }
  | { readonly kind: "ended" }
  | { readonly kind: "failed"; readonly message: string };

/** The page that traces one request. */
export function TracePage({ dump }: { readonly dump: ConfigDump }) {
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
      (error: unknown) => setRecording({ kind: "failed", message: toFailure(error).message }),
    );
  };
  const isRecording = recording.kind === "waiting" || recording.kind === "running";
  return (
    <>
      <RecordForm isRecording={isRecording} onStart={start} onStop={() => following.current?.abort()} />
      {recording.kind === "failed" ? (
        <Alert message={recording.message} />
      ) : (
        <p role="status">{describeRecording(recording, events.length)}</p>
      )}
      <TraceLink dump={dump} events={events} />
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
      <div class="controls">
        <input id="expression" name="expression" placeholder='request.path.startsWith("/v1")' spellcheck={false} />
        <button type="submit" disabled={isRecording}>
          Record
        </button>
        <button type="button" disabled={!isRecording} onClick={onStop}>
          Stop
        </button>
      </div>
    </form>
  );
}

function describeRecording({ kind }: Recording, events: number): string {
  switch (kind) {
    case "waiting":
      return "Waiting for a request…";
    case "running":
      return `Recording: ${counted(events, "event")} so far.`;
    case "ended":
      return `The request has ended: ${counted(events, "event")}.`;
    case "idle":
    case "failed":
      return "Press Record, then send a request.";
  }
}

/** The link to the trace of the request in the backend of `--trace-url-template`. */
function TraceLink({ dump, events }: { readonly dump: ConfigDump; readonly events: readonly TraceEvent[] }) {
  const started = events[0]?.message;
  if (started?.type !== "requestStarted" || started.traceId === undefined) return undefined;
  const { traceId, spanId } = started;
  const template = dump.config.settings["trace-url-template"];
  const url = typeof template === "string" ? traceUrl(template, { traceId, spanId }) : undefined;
  return (
    <p>
      Trace{" "}
      {url === undefined ? (
        <code>{traceId}</code>
      ) : (
        <a href={url} target="_blank" rel="noopener noreferrer">
          {traceId}
        </a>
      )}
    </p>
  );
}

function Events(props: { events: readonly TraceEvent[]; selected: number; onSelect: (index: number) => void }) {
  const { events, selected, onSelect } = props;
  const shown = events[selected];
  return (
    <div class="trace">
      <ol aria-label="Events">
        {events.map((event, index) => (
          <li key={index}>
            <EventButton event={event} isSelected={index === selected} onSelect={() => onSelect(index)} />
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

function EventButton(props: { event: TraceEvent; isSelected: boolean; onSelect: () => void }) {
  const { event, isSelected, onSelect } = props;
  const { name, summary } = describeMessage(event.message);
  return (
    <button type="button" aria-pressed={isSelected} class={event.severity} onClick={onSelect}>
      <span class="number">{formatMs(event.eventEnd / 1000)}</span> <strong>{name}</strong> <span>{summary}</span>
    </button>
  );
}
