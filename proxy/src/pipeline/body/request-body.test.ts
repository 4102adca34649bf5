import { PassThrough } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { AttemptBody } from "./attempt-body.ts";
import { BodyBudget, createBodyMemory } from "./body-budget.ts";
import { RequestBody } from "./request-body.ts";
import type { BodyReceiver, FieldList, IncomingBody } from "@gatewayproxy/http/ports";

/** Reads a stream as the body of a request. */
function bodyOf(stream: PassThrough, trailers: FieldList): IncomingBody {
  return {
    read: (receiver: BodyReceiver) => {
      stream
        .on("data", (bytes: Buffer) => receiver.onData(bytes))
        .on("end", () => receiver.onEnd(trailers))
        .on("close", () => {
          if (!stream.readableEnded) receiver.onAborted();
        });
    },
    pause: () => stream.pause(),
    resume: () => stream.resume(),
    get isPaused() {
      return stream.isPaused();
    },
  };
}

function upload(maxBytes = 2 ** 30, trailers: FieldList = []) {
  const client = new PassThrough();
  const record = { requestBytes: 0, missingIdBytes: 0 };
  const faults: unknown[] = [];
  return {
    client,
    faults,
    record,
    body: new RequestBody({
      body: bodyOf(client, trailers),
      record,
      owner: { fault: (error) => faults.push(error) },
      share: new BodyBudget(createBodyMemory(1), 1, maxBytes).openShare(),
    }),
  };
}

const allTrailers = { trailersToSend: (trailers: FieldList) => trailers };

/** Returns the body that an attempt sends. */
function sent(opened: Buffer | AttemptBody): Promise<string> {
  if (Buffer.isBuffer(opened)) return Promise.resolve(opened.toString());
  return new Promise((resolve, reject) => {
    let text = "";
    opened.read({
      onData: (bytes) => (text += bytes.toString()),
      onEnd: () => resolve(text),
      onAborted: () => reject(new Error("aborted")),
    });
  });
}

/** Opens the body for an attempt that begins to read it. */
function openReading(body: RequestBody): AttemptBody {
  const opened = body.open([], false, allTrailers);
  if (Buffer.isBuffer(opened)) throw new Error("the body is complete");
  opened.read({ onData: () => undefined, onEnd: () => undefined, onAborted: () => undefined });
  return opened;
}

describe("open", () => {
  test("returns the body as it arrives", async () => {
    const { client, body, record } = upload();
    const opened = body.open([], false, allTrailers);
    client.write("one ");
    client.end("two");
    expect(await sent(opened)).toBe("one two");
    expect(record.requestBytes).toBe(7);
  });

  test("returns it again from its first byte, during the upload and after it", async () => {
    const { client, body, record } = upload();
    const first = openReading(body);
    client.write("one ");
    await turn();
    first.cancel();
    const second = body.open([], false, allTrailers);
    client.end("two");
    expect(await sent(second)).toBe("one two");
    expect(body.isReplayable).toBe(true);
    expect(await sent(body.open([], false, allTrailers))).toBe("one two");
    expect(record.requestBytes).toBe(7);
  });

  test("returns a body that exceeds the kept bytes completely, and only once", async () => {
    const { client, body } = upload();
    const opened = body.open([], false, allTrailers);
    const long = "x".repeat(100_000);
    client.end(long);
    expect(await sent(opened)).toBe(long);
    expect(body.isReplayable).toBe(false);
  });

  test("pauses the client while the attempt is paused", async () => {
    const { client, body, record } = upload();
    openReading(body).pause();
    for (let n = 0; n < 64; n++) client.write(Buffer.alloc(16 * 1024));
    for (let n = 0; n < 10; n++) await turn();
    expect(record.requestBytes).toBeLessThan(256 * 1024);
    expect(client.writableNeedDrain).toBe(true);
  });

  test("reads the rest of the upload when the attempt ends before it", async () => {
    const { client, body } = upload();
    const opened = openReading(body);
    opened.pause();
    for (let n = 0; n < 64; n++) client.write(Buffer.alloc(16 * 1024));
    client.end();
    opened.cancel();
    await new Promise((resolve) => client.on("end", resolve));
    expect(client.readableEnded).toBe(true);
  });

  test("aborts the attempt when the client disconnects", async () => {
    const { client, body } = upload();
    const opened = body.open([], false, allTrailers);
    client.write("one ");
    client.destroy();
    await expect(sent(opened)).rejects.toThrow("aborted");
    expect(body.isReplayable).toBe(false);
  });
});

describe("trailers", () => {
  const checksum = ["x-sum", "1"];

  /** Returns the text and the trailers that an attempt sends. */
  const sentWith = (opened: Buffer | AttemptBody): Promise<readonly [string, FieldList]> =>
    new Promise((resolve, reject) => {
      let text = "";
      if (Buffer.isBuffer(opened)) {
        resolve([opened.toString(), []]);
        return;
      }
      opened.read({
        onData: (bytes) => (text += bytes.toString()),
        onEnd: (trailers) => resolve([text, trailers]),
        onAborted: () => reject(new Error("aborted")),
      });
    });

  test.each(["whole", ""])("of %j are sent by every attempt", async (text) => {
    const { client, body } = upload(2 ** 30, checksum);
    const first = sentWith(body.open([], false, allTrailers));
    client.end(text);
    expect(await first).toEqual([text, checksum]);
    expect(await sentWith(body.open([], false, allTrailers))).toEqual([text, checksum]);
  });

  test("are those that the attempt selects; without one, the body is sent in one write", async () => {
    const { client, body } = upload(2 ** 30, checksum);
    client.end("whole");
    await new Promise((resolve) => body.collect(resolve));
    expect(body.open([], false, { trailersToSend: () => [] })).toEqual(Buffer.from("whole"));
  });

  test("of an edited body are dropped, and come back with the original", async () => {
    const { client, body } = upload(2 ** 30, checksum);
    body.keepOriginal();
    client.end("as it came");
    await new Promise((resolve) => body.collect(resolve));
    body.replaceBy(Buffer.from("edited"));
    expect(await sentWith(body.open([], false, allTrailers))).toEqual(["edited", []]);
    body.restore();
    expect(await sentWith(body.open([], false, allTrailers))).toEqual(["as it came", checksum]);
  });

  test("are dropped where there is no memory for them", async () => {
    const { client, body } = upload(16 * 1024, ["x-large", "x".repeat(20_000)]);
    const opened = sentWith(body.open([], false, allTrailers));
    client.end("whole");
    expect(await opened).toEqual(["whole", []]);
  });
});

describe("collect", () => {
  test("waits for the end while an attempt reads", async () => {
    const { client, body } = upload();
    const whole = Promise.withResolvers<Buffer | undefined>();
    body.collect(whole.resolve);
    const opened = body.open([], false, allTrailers);
    client.write("one ");
    client.end("two");
    expect(await sent(opened)).toBe("one two");
    expect((await whole.promise)?.toString()).toBe("one two");
  });

  test("reports immediately that a body exceeds the kept bytes", async () => {
    const { client, body } = upload();
    const whole = Promise.withResolvers<Buffer | undefined>();
    body.collect(whole.resolve);
    client.write("x".repeat(64 * 1024 + 1));
    expect(await whole.promise).toBeUndefined();
  });

  test("returns longer bodies if more bytes are kept", async () => {
    const { client, body } = upload();
    body.keepUpTo(200_000);
    const whole = Promise.withResolvers<Buffer | undefined>();
    body.collect(whole.resolve);
    client.end("x".repeat(200_000));
    expect(await whole.promise).toHaveLength(200_000);
  });
});

test("a small body of known length is complete before the attempt, any other is sent as it arrives", async () => {
  const small = upload();
  let isReady = false;
  small.body.whenReady(["Content-Length", "3"], () => (isReady = true));
  small.client.write("on");
  await turn();
  expect(isReady).toBe(false);
  small.client.end("e");
  await new Promise((resolve) => small.client.on("end", resolve));
  expect([isReady, small.body.open([], false, allTrailers)]).toEqual([true, Buffer.from("one")]);

  for (const headers of [[], ["content-length", "70000"]]) {
    let isAtOnce = false;
    upload().body.whenReady(headers, () => (isAtOnce = true));
    expect(isAtOnce).toBe(true);
  }
});

test("a failing use of the complete body is reported to the owner, and the other uses get the body", async () => {
  const { client, body, faults } = upload();
  const bug = new Error("bug");
  body.collect(() => {
    throw bug;
  });
  const whole = new Promise<Buffer | undefined>((resolve) => body.collect(resolve));
  client.end("whole");
  expect(String(await whole)).toBe("whole");
  expect(faults).toEqual([bug]);
});

describe("replaceBy", () => {
  test("charges the replacement to the memory for bodies, and returns false if there is not enough", async () => {
    const { client, body } = upload(128 * 1024);
    client.end("small");
    await new Promise((resolve) => body.collect(resolve));
    expect(body.replaceBy(Buffer.alloc(100_000, "x"))).toBe(true);
    expect(await sent(body.open([], false, allTrailers))).toBe("x".repeat(100_000));
    expect(body.isOutOfMemory).toBe(false);
    expect(body.replaceBy(Buffer.alloc(130_000))).toBe(false);
    expect(body.isOutOfMemory).toBe(true);
  });
});

describe("restore", () => {
  const edit = async (maxBytes: number) => {
    const { client, body } = upload(maxBytes);
    body.keepOriginal();
    client.end("as it came");
    await new Promise((resolve) => body.collect(resolve));
    expect(body.replaceBy(Buffer.alloc(100_000, "x"))).toBe(true);
    return body;
  };

  test("brings back the body as it came, as often as it is edited", async () => {
    const body = await edit(1024 * 1024);
    for (let edits = 0; edits < 2; edits++) {
      expect(body.isRestorable).toBe(true);
      body.restore();
      expect(await sent(body.open([], false, allTrailers))).toBe("as it came");
      expect(body.replaceBy(Buffer.from("edited"))).toBe(true);
    }
    body.release();
    expect(body.isRestorable).toBe(false);
  });

  test("is not possible where there is memory for one of both only: the edited one is sent", async () => {
    const body = await edit(128 * 1024);
    expect(body.isRestorable).toBe(false);
    expect(await sent(body.open([], false, allTrailers))).toBe("x".repeat(100_000));
  });
});
