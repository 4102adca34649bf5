import { describe, expect, test } from "vitest";
import { hostOf, HostTable } from "./host-table.ts";

describe("hostOf", () => {
  test.each([
    ["example.com", "example.com"],
    ["Example.COM:8080", "example.com"],
    ["example.com.", "example.com"],
    ["example.com.:80", "example.com"],
    ["example.com:", "example.com"],
    ["127.0.0.1:80", "127.0.0.1"],
    ["[::1]", "[::1]"],
    ["[2001:DB8::1]:8443", "[2001:db8::1]"],
    ["", ""],
  ])("reads %s as host %s", (authority, host) => {
    expect(hostOf(authority)).toBe(host);
  });
});

describe("HostTable", () => {
  const table = new HostTable<string>();
  for (const hostname of ["a.example.com", "*.example.com", "*.b.example.com", undefined]) {
    table.add(hostname, hostname ?? "any");
  }

  test.each([
    ["an exact name before the wildcard that covers it", "A.example.com:80", "a.example.com"],
    ["the longest wildcard", "x.b.example.com", "*.b.example.com"],
    ["a wildcard for several labels", "x.y.z.example.com", "*.example.com"],
    ["the shorter wildcard for the bare domain of the longer", "b.example.com", "*.example.com"],
    ["the rest for the bare domain of a wildcard", "example.com", "any"],
    ["the rest for a name that merely ends alike", "notexample.com", "any"],
    ["the rest for an empty label before the domain", ".example.com", "any"],
    ["the rest for an IPv6 literal", "[::1]:80", "any"],
    ["the rest for an absurdly long name", `${"a.".repeat(200)}example.com`, "any"],
  ])("finds %s", (_, authority, expected) => {
    expect(table.find(authority)).toBe(expected);
  });

  test("finds nothing for a host that nothing covers", () => {
    const exactOnly = new HostTable<string>();
    exactOnly.add("a.example.com", "a");
    expect(exactOnly.find("b.example.com")).toBeUndefined();
  });

  test("keeps the first of two equal hostnames", () => {
    const twice = new HostTable<string>();
    for (const value of ["first", "second"]) for (const name of ["a.b", "*.b", undefined]) twice.add(name, value);
    expect(["a.b", "x.b", "c"].map((host) => twice.find(host))).toEqual(["first", "first", "first"]);
  });

  test.each([
    ["a.example.com", "*.example.com"],
    ["*.b.example.com", "*.example.com"],
    ["*.example.com", "any"],
    [undefined, undefined],
  ])("goes on from %s to %s", (hostname, expected) => {
    expect(table.findLessSpecific(hostname)).toBe(expected);
  });
});
