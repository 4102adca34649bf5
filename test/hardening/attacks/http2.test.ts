/**
 * Known attacks of HTTP/2 clients, as frames in `corpus/http2-attacks`. Each ends as its file says, by a GOAWAY, a
 * reset or a response, and another client is served at that time.
 *
 * HARDENING_RECORD=true writes the outcome into the files that expect null, for review before the commit.
 */
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend } from "../../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
} from "../../support/gateway.ts";
import { type Frame, frame, framesOf, frameType, openRawHttp2, type RawHttp2 } from "../../support/raw-http2.ts";
import { sendHttp2 } from "../../support/tls.ts";

interface Attack {
  readonly description: string;
  readonly send: readonly SentFrame[];
  /** The number of times that all of `send` is sent; each time the streams are `streamStep` higher. Default 1. */
  readonly repeat?: number;
  /** The client does not read. Default false. */
  readonly readsNothing?: boolean;
  readonly expect: Outcome | null;
}

interface SentFrame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  /** In hexadecimal digits. */
  readonly payload: string;
  /** Default 1. */
  readonly times?: number;
  /** The increase of the stream each time. Default 0. */
  readonly streamStep?: number;
}

/** The reaction of the server; a list has each value once. */
interface Outcome {
  /** Codes of GOAWAY frames (RFC 9113 §7). In a file: one of them is expected. */
  readonly goaway: readonly number[];
  /** Codes of RST_STREAM frames. */
  readonly reset: readonly number[];
  /** Of responses. After a GOAWAY it depends on timing which arrive, and none is listed. */
  readonly status: readonly number[];
  readonly isClosed: boolean;
}

const corpus = join(import.meta.dirname, "../corpus/http2-attacks");
const isRecording = process.env["HARDENING_RECORD"] === "true";

/** Statuses in HPACK's static table from index 8 on (RFC 7541 §A). */
const staticStatuses = [200, 204, 206, 304, 400, 404, 500];

/** The first field of a response is its status. It may come after a change of the table size (RFC 7541 §6.3). */
function statusOf(frame: Frame): number {
  const payload = frame.payload[0] === 0x20 ? frame.payload.subarray(1) : frame.payload;
  const [first = 0] = payload;
  if (first >= 0x88 && first <= 0x8e) return staticStatuses[first - 0x88] ?? 0;
  // A literal under the name with index 8.
  const length = (payload[1] ?? 0) & 0x7f;
  const value = payload.subarray(2, 2 + length);
  return Number((payload[1] ?? 0) & 0x80 ? huffmanDigits(value) : value.toString("latin1"));
}

/** RFC 7541 §B: 0 to 2 have five bits, 3 to 9 have six. */
function huffmanDigits(bytes: Buffer): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  let digits = "";
  for (let at = 0; digits.length < 3; ) {
    const five = Number.parseInt(bits.slice(at, at + 5), 2);
    digits += String(five <= 2 ? five : Number.parseInt(bits.slice(at, at + 6), 2) - 0b011001 + 3);
    at += five <= 2 ? 5 : 6;
  }
  return digits;
}

function distinct(values: readonly number[]): readonly number[] {
  return [...new Set(values)].sort((a, b) => a - b);
}

function outcomeOf({ socket, received }: RawHttp2): Outcome {
  const frames = framesOf(received());
  const ofType = (type: number): readonly Frame[] => frames.filter((each) => each.type === type);
  const goaway = distinct(ofType(frameType.goaway).map(({ payload }) => payload.readUInt32BE(4)));
  return {
    goaway,
    reset: goaway.length > 0 ? [] : distinct(ofType(frameType.rstStream).map(({ payload }) => payload.readUInt32BE())),
    status: goaway.length > 0 ? [] : distinct(ofType(frameType.headers).map(statusOf)),
    isClosed: socket.closed,
  };
}

function* bytesOf({ send, repeat = 1 }: Attack): Iterable<Buffer> {
  for (let round = 0; round < repeat; round++) {
    for (const { type, flags, stream, payload, times = 1, streamStep = 0 } of send) {
      const bytes = Buffer.from(payload, "hex");
      const made = Array.from({ length: times }, (_, time) =>
        frame(type, flags, stream + (round + time) * streamStep, bytes),
      );
      for (let at = 0; at < made.length; at += 500) yield Buffer.concat(made.slice(at, at + 500));
    }
  }
}

/** From this number of frames on, the server may close the connection before its GOAWAY is read. */
const flood = 1_000;

/** Sends everything, as far as the server reads it: a few frames together, so that it reads them in one turn. */
async function sendAll({ socket }: RawHttp2, attack: Attack): Promise<void> {
  if (countFrames(attack) < flood) {
    socket.write(Buffer.concat([...bytesOf(attack)]));
    return;
  }
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  for (const bytes of bytesOf(attack)) {
    if (socket.destroyed) return;
    if (socket.write(bytes)) continue;
    const drained = new Promise<void>((resolve) => socket.once("drain", () => resolve()));
    await Promise.race([drained, closed, sleep(2_000)]);
  }
}

function countFrames({ send, repeat = 1 }: Attack): number {
  return repeat * send.reduce((sum, { times = 1 }) => sum + times, 0);
}

function isAsExpected(outcome: Outcome, attack: Attack): boolean {
  const { expect: expected } = attack;
  if (expected === null || outcome.isClosed !== expected.isClosed) return false;
  if (expected.goaway.length === 0) return JSON.stringify(outcome) === JSON.stringify(expected);
  if (outcome.goaway.length === 0) return countFrames(attack) >= flood;
  return outcome.goaway.every((code) => expected.goaway.includes(code));
}

async function play(attack: Attack, isOver: (outcome: Outcome) => boolean): Promise<Outcome> {
  const names = new Set<string>();
  const { port } = await startBackend((request, response) => {
    for (const name of Object.keys(request.headers)) names.add(name);
    request.resume().once("end", () => respondWith(200, "ok")(request, response));
  });
  const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
  const gateway = await startGateway(manifests(gatewayManifest(), backendManifest("b", port), route));
  const session = connectHttp2(gateway.url());
  onTestFinished(() => session.destroy());
  const attacker = openRawHttp2(gateway.url());
  await once(attacker.socket, "data");
  if (attack.readsNothing === true) attacker.socket.pause();
  const sending = sendAll(attacker, attack);
  for (let times = 0; times < 5; times++) expect(await sendHttp2(session, "a")).toMatchObject({ status: 200 });
  await sending;
  attacker.socket.resume();
  // The expected outcome takes a moment on an idle machine, and some seconds on a busy one.
  for (let waited = 0; waited < 200 && !isOver(outcomeOf(attacker)); waited++) await sleep(25);
  expect(await sendHttp2(session, "a")).toMatchObject({ status: 200 });
  expect(gateway.internalErrors).toEqual([]);
  // The names and values that the attacks try to hide.
  expect([...names].filter((name) => name === "x-b" || !/^[-a-z]+$/.test(name))).toEqual([]);
  return outcomeOf(attacker);
}

describe("an attack ends as its file says, and others are served", () => {
  test.each(readdirSync(corpus).sort())("%s", async (file) => {
    const path = join(corpus, file);
    // The files of this corpus have this form.
    const attack = JSON.parse(readFileSync(path, "utf8")) as Attack;
    const expected = attack.expect;
    if (isRecording && expected === null) {
      let quiet = 0;
      const outcome = await play(attack, () => ++quiet > 20);
      writeFileSync(path, `${JSON.stringify({ ...attack, expect: outcome }, undefined, 2)}\n`);
      return;
    }
    expect(expected).not.toBeNull();
    const outcome = await play(attack, (so) => isAsExpected(so, attack));
    if (!isAsExpected(outcome, attack)) expect(outcome).toEqual(expected);
  });
});
