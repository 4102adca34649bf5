/**
 * Reads the JSON of request bodies without delaying other requests. It reads a small body at once, and a large one in
 * slices. Each turn of the event loop reads one slice of one body.
 */
import { type JsonReading, RequestJsonReader, type MemberNames } from "../../llm/request-json.ts";

/** Bytes that are read in one turn of the event loop. Other requests wait for at most one slice. */
const sliceBytes = 128 * 1024;

/** A body that is released when its request ends. */
interface Releasable {
  readonly isReleased: boolean;
  /** Receives errors of later turns; absent: they are thrown, and end the thread. */
  fault?(error: unknown): void;
}

interface Job {
  readonly reader: RequestJsonReader;

  readonly body: Releasable;
  readonly done: (reading: JsonReading) => void;
}

/** The bodies that this worker still reads, in the order of their turns. */
const waiting: Job[] = [];

/**
 * Reads `whole` and calls `done` once with the result: within this call if `whole` has at most 128 KiB, else in a later
 * turn. If the request ends first, `done` is not called.
 */
export function readBody(
  body: Releasable,
  whole: Buffer,
  names: MemberNames,
  done: (reading: JsonReading) => void,
): void {
  const job = { reader: new RequestJsonReader(whole, names), body, done };
  if (whole.length > sliceBytes) queue(job);
  else readSlice(job);
}

function queue(job: Job): void {
  waiting.push(job);
  if (waiting.length === 1) setImmediate(readNext);
}

function readNext(): void {
  const job = waiting.shift();
  if (waiting.length > 0) setImmediate(readNext);
  if (job === undefined || job.body.isReleased) return;
  try {
    readSlice(job);
  } catch (error) {
    if (job.body.fault === undefined) throw error;
    job.body.fault(error);
  }
}

function readSlice(job: Job): void {
  const reading = job.reader.read(sliceBytes);
  if (reading === undefined) queue(job);
  else job.done(reading);
}
