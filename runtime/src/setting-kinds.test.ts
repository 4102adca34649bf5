import { describe, expect, test } from "vitest";
import { duration, integer, oneOf, socketAddress, text, toggle } from "./setting-kinds.ts";

describe("kinds of settings", () => {
  test.each([
    ["integer", integer(1, 64), "8", 8],
    ["integer at its lower bound", integer(-1, 64), "-1", -1],
    ["text", text("DIR", "a folder"), "/etc/proxy", "/etc/proxy"],
    ["toggle", toggle, "TRUE", true],
    ["toggle as a digit", toggle, "0", false],
    ["word", oneOf("on", "off"), "off", "off"],
    ["milliseconds", duration(0, 60_000), "500ms", 500],
    ["seconds", duration(0, 60_000), "1.5s", 1_500],
    ["minutes", duration(0, 60_000), "1m", 60_000],
    ["hours", duration(0, 7_200_000), "2h", 7_200_000],
    ["address", socketAddress, "127.0.0.1:15000", { host: "127.0.0.1", port: 15_000 }],
    ["address by name", socketAddress, "localhost:0", { host: "localhost", port: 0 }],
    ["address of IPv6", socketAddress, "[::1]:80", { host: "::1", port: 80 }],
    ["address of every interface", socketAddress, ":15020", { host: "::", port: 15_020 }],
  ])("reads %s", (_, kind, given, expected) => {
    expect(kind.parse(given)).toEqual(expected);
  });

  test.each([
    ["a number out of bounds", integer(1, 64), "65"],
    ["a fraction", integer(1, 64), "1.5"],
    ["a number in another notation", integer(1, 64), "0x10"],
    ["no number", integer(0, 64), ""],
    ["an empty text", text("DIR", "a folder"), ""],
    ["another word for yes", toggle, "yes"],
    ["a word in other case", oneOf("on", "off"), "On"],
    ["a duration without unit", duration(0, 60_000), "10"],
    ["a duration out of bounds", duration(0, 60_000), "61s"],
    ["a negative duration", duration(0, 60_000), "-1s"],
    ["an address without port", socketAddress, "localhost"],
    ["a port out of range", socketAddress, "localhost:65536"],
    ["IPv6 without brackets", socketAddress, "::1:80"],
    ["a URL", socketAddress, "http://localhost:80"],
  ])("refuses %s", (_, kind, given) => {
    expect(kind.parse(given)).toBeUndefined();
  });

  test("tells the bounds of a duration in whole units", () => {
    expect(duration(0, 3_600_000).accepted).toBe("a duration from 0ms to 1h, such as 500ms, 10s, 5m or 1h");
  });
});
