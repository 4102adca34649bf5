/**
 * Reads the JSON of request bodies without holding other requests up: a small body at once, a large one in slices, with
 * one slice of one body in each turn of the event loop.
 */
import { type JsonReading, RequestJsonReader, type MemberNames } from "../../llm/request-json.ts";

/** Bytes that are read in one turn of the event loop. Requests wait for one such slice at most. */
const sliceBytes = 128 * 1024;

/** A body that is let go when its request has ended. */
interface Releasable {
  readonly isReleased: boolean;
  /** Takes what fails in a later turn; absent: the thread ends. */
  fault?(error: unknown): void;
}

interface Job {
  readonly reader: RequestJsonReader;

  readonly body: Releasable;
  readonly done: (reading: JsonReading) => void;
}

/** Of this worker, in the order of their turns. */
const waiting: Job[] = [];

/**
 * Calls `done` once with what was read of `whole`: within this call where it is small, never when the request has ended
 * meanwhile.
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
