import { describe, expect, test } from "vitest";
import { acceptsTrailers, connectionOptions, isHopByHop } from "./hop-by-hop.ts";

describe("isHopByHop", () => {
  test.each(["Connection", "keep-alive", "Proxy-Connection", "TE", "Transfer-Encoding", "Upgrade"])(
    "holds for %s (RFC 9110 §7.6.1)",
    (name) => {
      expect([name, name.toLowerCase(), name.toUpperCase()].map(isHopByHop)).toEqual([true, true, true]);
    },
  );

  test.each(["trailer", "content-length", "authorization", "ta", "updated", "connectiom", "x-forwarded-host"])(
    "does not hold for %s",
    (name) => {
      expect(isHopByHop(name)).toBe(false);
    },
  );
});

describe("connectionOptions", () => {
  test("collects the names of all Connection fields", () => {
    const options = connectionOptions(["Connection", "close, X-A", "a", "1", "connection", " x-b ,"]);
    expect([...(options ?? [])]).toEqual(["x-a", "x-b"]);
  });

  test("is absent for the usual values", () => {
    expect(connectionOptions(["connection", "keep-alive, Upgrade", "connection", "close"])).toBeUndefined();
  });

  test("does not let a client take the host or the length of its message away", () => {
    expect(connectionOptions(["connection", "content-length, Host"])).toBeUndefined();
  });
});

test("only `trailers` is of interest in TE", () => {
  expect(["trailers", "gzip;q=0.5, Trailers", "gzip", "trailers-not"].map(acceptsTrailers)).toEqual([
    true,
    true,
    false,
    false,
  ]);
});
