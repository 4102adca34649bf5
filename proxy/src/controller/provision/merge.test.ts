import { describe, expect, test } from "vitest";
import { mergeObject } from "./merge.ts";

describe("YAML over an object", () => {
  test.each([
    ["adds fields", { a: 1 }, { b: 2 }, { a: 1, b: 2 }],
    ["replaces values", { a: 1 }, { a: "one" }, { a: "one" }],
    ["merges maps, however deep", { a: { b: { c: 1, d: 2 } } }, { a: { b: { c: 3 } } }, { a: { b: { c: 3, d: 2 } } }],
    ["removes a field by null", { a: { b: 1, c: 2 } }, { a: { b: null } }, { a: { c: 2 } }],
    ["replaces a map by a value", { a: { b: 1 } }, { a: 1 }, { a: 1 }],
    ["replaces a list whose items have no name", { args: ["a"] }, { args: ["b", "c"] }, { args: ["b", "c"] }],
    [
      "merges containers by their names, and adds others behind them",
      { containers: [{ name: "proxy", image: "a", env: [{ name: "X", value: "1" }] }] },
      {
        containers: [
          { name: "sidecar", image: "s" },
          { name: "proxy", image: "b", env: [{ name: "Y", value: "2" }] },
        ],
      },
      {
        containers: [
          {
            name: "proxy",
            image: "b",
            env: [
              { name: "X", value: "1" },
              { name: "Y", value: "2" },
            ],
          },
          { name: "sidecar", image: "s" },
        ],
      },
    ],
    [
      "merges ports of a Service by their number",
      { ports: [{ name: "port-80", port: 80 }] },
      { ports: [{ port: 80, nodePort: 30_080 }] },
      { ports: [{ name: "port-80", port: 80, nodePort: 30_080 }] },
    ],
    [
      "merges ports of a Service by their number and their protocol, if the patch has one",
      {
        ports: [
          { port: 53, protocol: "TCP" },
          { port: 53, protocol: "UDP" },
          { port: 80, protocol: "TCP" },
        ],
      },
      {
        ports: [
          { port: 53, protocol: "UDP", nodePort: 30_053 },
          { port: 80, nodePort: 30_080 },
        ],
      },
      {
        ports: [
          { port: 53, protocol: "TCP" },
          { port: 53, protocol: "UDP", nodePort: 30_053 },
          { port: 80, protocol: "TCP", nodePort: 30_080 },
        ],
      },
    ],
    [
      "merges ports of a container by their number",
      { ports: [{ containerPort: 15_020, name: "metrics" }] },
      { ports: [{ containerPort: 9_000, name: "extra" }] },
      {
        ports: [
          { containerPort: 15_020, name: "metrics" },
          { containerPort: 9_000, name: "extra" },
        ],
      },
    ],
    [
      "replaces a list whose items should have a name and do not",
      { volumes: [{ name: "tmp" }] },
      { volumes: [{ emptyDir: {} }] },
      { volumes: [{ emptyDir: {} }] },
    ],
  ])("%s", (_, base, patch, expected) => {
    const before = structuredClone(base);
    expect(mergeObject(base, patch)).toEqual(expected);
    expect(base).toEqual(before);
  });
});
