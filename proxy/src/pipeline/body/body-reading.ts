/**
 * Reads the JSON of request bodies without delaying other requests. It reads a small body at once, and a large one in
 * slices. Each turn of the event loop reads one slice of a large body, or as many bytes of small ones. Clients take
 * turns, and the bodies of a client take turns among themselves, so that a client with many bodies does not delay the
 * one of another client.
 */
import { type JsonReading, RequestJsonReader, type MemberNames } from "../../llm/request-json.ts";

/** Bytes that are read in one turn of the event loop. Other requests wait for at most one slice. */
const sliceBytes = 128 * 1024;
/**
 * The least that a body counts. The search of its rule follows, and takes up to a millisecond where patterns are
 * matched.
 */
const leastBytes = 4 * 1024;

/** A body that is released when its request ends. */
interface Releasable {
  /** The address of its client. */
  readonly client: string;
  readonly isReleased: boolean;
  /** Receives errors of later turns; absent: they are thrown, and end the thread. */
  fault?(error: unknown): void;
}

interface Job {
  readonly reader: RequestJsonReader;
  readonly length: number;
  readonly body: Releasable;
  readonly done: (reading: JsonReading) => void;
}

/** The bodies that this worker still reads, by client, in the order of their turns. No list is empty. */
const waiting = new Map<string, Job[]>();

/** Bytes that may still be read in this turn of the event loop. */
let roomBytes = sliceBytes;
let isScheduled = false;

/**
 * Reads `whole` and calls `done` once with the result: within this call if this turn of the event loop has room for it,
 * else in a later turn. If the request ends first, `done` is not called.
 */
export function readBody(
  body: Releasable,
  whole: Buffer,
  names: MemberNames,
  done: (reading: JsonReading) => void,
): void {
  const job = { reader: new RequestJsonReader(whole, names), length: whole.length, body, done };
  schedule();
  if (Math.max(whole.length, leastBytes) > roomBytes) queue(job);
  else readSlice(job);
}

function schedule(): void {
  if (isScheduled) return;
  isScheduled = true;
  setImmediate(readTurn);
}

function queue(job: Job): void {
  const { client } = job.body;
  const own = waiting.get(client);
  if (own === undefined) waiting.set(client, [job]);
  else own.push(job);
}

/** Takes the next body. The next turn of its client comes after those of the others. */
function takeNext(): Job | undefined {
  const [next] = waiting;
  if (next === undefined) return undefined;
  const [client, own] = next;
  const job = own.shift();
  waiting.delete(client);
  if (own.length > 0) waiting.set(client, own);
  return job;
}

function readTurn(): void {
  isScheduled = false;
  roomBytes = sliceBytes;
  while (roomBytes > 0 && waiting.size > 0) readNext();
  // The next turn has room again.
  if (roomBytes < sliceBytes) schedule();
}

function readNext(): void {
  const job = takeNext();
  if (job === undefined || job.body.isReleased) return;
  try {
    readSlice(job);
  } catch (error) {
    if (job.body.fault === undefined) throw error;
    job.body.fault(error);
  }
}

function readSlice(job: Job): void {
  roomBytes -= Math.min(Math.max(job.length, leastBytes), sliceBytes);
  const reading = job.reader.read(sliceBytes);
  if (reading === undefined) queue(job);
  else job.done(reading);
}
