import { describe, expect, test } from "vitest";
import {
  duration,
  integer,
  ipAddress,
  ipSocketAddresses,
  listenAddress,
  loopbackListenAddress,
  oneOf,
  orOff,
  renderSetting,
  type SettingKind,
  socketAddress,
  text,
  toggle,
} from "./setting-kinds.ts";

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
    ["address of loopback", loopbackListenAddress, ":15000", { host: "127.0.0.1", port: 15_000 }],
    ["address that is said to be open", loopbackListenAddress, "[::]:15000", { host: "::", port: 15_000 }],
    ["IP address", ipAddress, "::1", "::1"],
  ])("accepts %s", (_, kind, given, expected) => {
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
    ["a name for an IP address", ipAddress, "localhost"],
    ["a URL", socketAddress, "http://localhost:80"],
  ])("rejects %s", (_, kind, given) => {
    expect(kind.parse(given)).toBeUndefined();
  });

  test.each<[SettingKind<unknown>, string]>([
    [duration(0, 3_600_000), "1500ms"],
    [duration(0, 3_600_000), "30s"],
    [duration(0, 3_600_000), "0ms"],
    [duration(0, 86_400_000), "24h"],
    [integer(1, 64), "8"],
    [oneOf("on", "off"), "on"],
    [socketAddress, "[::]:15020"],
    [orOff(listenAddress), "off"],
    [orOff(listenAddress), "unix:/run/admin.sock"],
    [ipSocketAddresses, "127.0.0.1:8081,[::1]:8081"],
  ])("renders what %o has read of %s as it was typed", (kind, given) => {
    expect(renderSetting(kind, kind.parse(given))).toBe(given);
  });

  test("renders the bounds of a duration in whole units", () => {
    expect(duration(0, 3_600_000).accepted).toBe("a duration from 0ms to 1h, such as 500ms, 10s, 5m or 1h");
  });
});
