import { describe, expect, test } from "vitest";
import { Propagation, type Propagator } from "./propagation.ts";
import {
  parseB3Multi,
  parseB3Single,
  parseTraceparent,
  parseTraceReference,
  validBaggage,
  validTracestate,
} from "./trace-context.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const spanId = "00f067aa0ba902b7";

describe("traceparent", () => {
  test("of version 00 names the trace, the span and the decision of the caller", () => {
    expect(parseTraceparent(`00-${traceId}-${spanId}-01`)).toEqual({ traceId, spanId, isSampled: true });
    expect(parseTraceparent(`00-${traceId}-${spanId}-00`)).toEqual({ traceId, spanId, isSampled: false });
  });

  test("may have further flags, of which only the first counts", () => {
    expect(parseTraceparent(`00-${traceId}-${spanId}-03`)?.isSampled).toBe(true);
    expect(parseTraceparent(`00-${traceId}-${spanId}-02`)?.isSampled).toBe(false);
  });

  test("of a later version may have further parts", () => {
    expect(parseTraceparent(`cc-${traceId}-${spanId}-01-what-comes`)).toEqual({ traceId, spanId, isSampled: true });
    expect(parseTraceparent(`cc-${traceId}-${spanId}-01.what`)).toBeUndefined();
  });

  test.each([
    ["absent", undefined],
    ["empty", ""],
    ["too short", `00-${traceId}-${spanId}`],
    ["of version 00 with a further part", `00-${traceId}-${spanId}-01-more`],
    ["of version ff", `ff-${traceId}-${spanId}-01`],
    ["in upper case", `00-${traceId.toUpperCase()}-${spanId}-01`],
    ["with a trace id of zeros", `00-${"0".repeat(32)}-${spanId}-01`],
    ["with a span id of zeros", `00-${traceId}-${"0".repeat(16)}-01`],
    ["two values in one", `00-${traceId}-${spanId}-01,00-${traceId}-${spanId}-01`],
    ["endless", `cc-${traceId}-${spanId}-01-${"x".repeat(300)}`],
  ])("is ignored if it is %s", (_what, value) => {
    expect(parseTraceparent(value)).toBeUndefined();
  });
});

describe("tracestate", () => {
  test("is passed on if it is a list of valid members", () => {
    expect(validTracestate("rojo=00f067aa0ba902b7, congo@tenant=t61rcWkgMzE")).toBe(
      "rojo=00f067aa0ba902b7,congo@tenant=t61rcWkgMzE",
    );
  });

  test.each([
    ["empty", ""],
    ["longer than 512 characters", `a=${"x".repeat(511)}`],
    ["of more than 32 members", Array.from({ length: 33 }, (_, at) => `k${at}=v`).join(",")],
    ["with a member without a value", "rojo"],
    ["with other characters than visible ASCII", "rojo=ü"],
    ["with a line break", "rojo=a\nb"],
  ])("is dropped if it is %s", (_what, value) => {
    expect(validTracestate(value)).toBeUndefined();
  });
});

describe("baggage", () => {
  test("is passed on as it is within its bounds", () => {
    expect(validBaggage("userId=alice,serverNode=DF%2028;prop=1")).toBe("userId=alice,serverNode=DF%2028;prop=1");
    expect(validBaggage("x".repeat(8_193))).toBeUndefined();
    expect(validBaggage(Array.from({ length: 65 }, (_, at) => `k${at}=v`).join(","))).toBeUndefined();
    expect(validBaggage("a=b\r\nx: y")).toBeUndefined();
    expect(validBaggage("a=b,\tc=d ")).toBe("a=b, c=d");
  });
});

describe("b3", () => {
  test("in one header names the span, and may leave the decision to us", () => {
    expect(parseB3Single(`${traceId}-${spanId}-1`)).toEqual({ traceId, spanId, isSampled: true });
    expect(parseB3Single(`${traceId}-${spanId}-d`)?.isSampled).toBe(true);
    expect(parseB3Single(`${traceId}-${spanId}-0-05e3ac9a4f6e3b90`)?.isSampled).toBe(false);
    expect(parseB3Single(`${traceId}-${spanId}`)).toEqual({ traceId, spanId, isSampled: undefined });
    expect(parseB3Single("0")).toBeUndefined();
  });

  test("in several headers, with a trace id of 64 bits", () => {
    const read = parseB3Multi({ traceId: "a3ce929d0e0e4736", spanId, sampled: "1", flags: undefined });
    expect(read).toEqual({ traceId: "0000000000000000a3ce929d0e0e4736", spanId, isSampled: true });
    expect(parseB3Multi({ traceId, spanId: undefined, sampled: "1", flags: undefined })).toBeUndefined();
    expect(parseB3Multi({ traceId, spanId, sampled: undefined, flags: "1" })?.isSampled).toBe(true);
  });
});

describe("propagation", () => {
  const fields = ["Traceparent", `00-${traceId}-${spanId}-01`, "tracestate", "a=b", "x-user", "ann", "baggage", "k=v"];
  const extractFrom = (propagators: readonly Propagator[], from: readonly string[]) =>
    new Propagation(propagators).extract(from);

  test("reads only the formats of the setting", () => {
    expect(extractFrom(["tracecontext"], fields)).toEqual({
      hasFields: true,
      parent: { traceId, spanId, isSampled: true },
      tracestate: "a=b",
      baggage: undefined,
    });
    expect(extractFrom(["baggage"], fields)).toMatchObject({
      parent: undefined,
      tracestate: undefined,
      baggage: "k=v",
    });
    for (const nothing of [extractFrom([], fields), extractFrom(["b3"], fields)]) {
      expect(nothing).toEqual({ hasFields: false, parent: undefined, tracestate: undefined, baggage: undefined });
    }
  });

  test("prefers the last format that has a context", () => {
    const other = "1".repeat(32);
    const both = [...fields, "b3", `${other}-${spanId}-0`];
    expect(extractFrom(["tracecontext", "b3"], both).parent?.traceId).toBe(other);
    expect(extractFrom(["b3", "tracecontext"], both).parent?.traceId).toBe(traceId);
    expect(extractFrom(["tracecontext", "b3"], fields).parent?.traceId).toBe(traceId);
  });

  test("takes no parent from a repeated traceparent", () => {
    expect(
      extractFrom(["tracecontext"], [...fields, "traceparent", `00-${traceId}-${spanId}-01`]).parent,
    ).toBeUndefined();
  });

  test("writes every format of the setting", () => {
    const context = { traceId, spanId, isSampled: true, tracestate: "a=b", baggage: "k=v" };
    expect(new Propagation(["tracecontext", "baggage", "b3", "b3multi"]).fieldsOf(context)).toEqual([
      ...["traceparent", `00-${traceId}-${spanId}-01`, "tracestate", "a=b", "baggage", "k=v"],
      ...["b3", `${traceId}-${spanId}-1`],
      ...["x-b3-traceid", traceId, "x-b3-spanid", spanId, "x-b3-sampled", "1"],
    ]);
  });

  test("knows of fields that are not valid, which are removed all the same", () => {
    const invalid = ["TraceParent", "no", "x-user", "ann"];
    expect(extractFrom(["tracecontext"], invalid)).toMatchObject({ hasFields: true, parent: undefined });
    expect(new Propagation(["tracecontext"]).without(invalid)).toEqual(["x-user", "ann"]);
  });

  test("removes the fields of the caller, in any case", () => {
    expect(new Propagation(["tracecontext", "baggage"]).without(fields)).toEqual(["x-user", "ann"]);
  });
});

describe("a trace that a person names", () => {
  const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
  const parent = { traceId, spanId: "00f067aa0ba902b7", isSampled: true };

  test.each([
    [traceId, { traceId, parent: undefined }],
    [` ${traceId.toUpperCase()}\n`, { traceId, parent: undefined }],
    [`00-${traceId}-00f067aa0ba902b7-01`, { traceId, parent }],
  ])("%s", (text, reference) => {
    expect(parseTraceReference(text)).toEqual(reference);
  });

  test.each([
    "",
    "0".repeat(32),
    traceId.slice(1),
    `${traceId}0`,
    `0x${traceId.slice(2)}`,
    `00-${traceId}-00f067aa0ba902b7`,
  ])("is not %j", (text) => {
    expect(parseTraceReference(text)).toBeUndefined();
  });
});
