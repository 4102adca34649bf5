/** Each environment variable of the reference is a setting of ours with its default, or has no effect for a reason. */
import { readFileSync } from "node:fs";
import { renderProblem } from "@gatewayproxy/runtime/problem";
import { renderLogFilter } from "@gatewayproxy/runtime/log-filter";
import { describe, expect, test } from "vitest";
import { readServiceSettings, serviceSettings } from "../settings.ts";
import { type ReferenceType, referenceVariables } from "../testing/reference-variables.ts";
import { settingsWithoutEffect } from "./other-settings.ts";

const keyOf = new Map(Object.entries(serviceSettings).map(([key, { env }]) => [env as string, key]));
const settings = referenceVariables.filter(([name]) => keyOf.has(name));
const others = referenceVariables.filter(([name]) => !keyOf.has(name));

/** Defaults that are written otherwise here. */
const elsewhere: Readonly<Record<string, string>> = {
  // A path is a socket, everything else an address.
  REDIS_SOCKET_TYPE: "",
  REDIS_PERSECOND_SOCKET_TYPE: "",
  // The reference leaves it to its gRPC client.
  XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: "4194304",
};

function valueOf(env: Readonly<Record<string, string>>, name: string): unknown {
  const read = readServiceSettings({ argv: [], env }, "reference");
  if (read.kind !== "settings") return read.kind === "invalid" ? read.problems.map(renderProblem) : read.kind;
  const values: Readonly<Record<string, unknown>> = read.settings.values;
  return name === "LOG_LEVEL" ? renderLogFilter(read.settings.values.logLevel) : values[keyOf.get(name) ?? ""];
}

test("the reference has 114 variables, and each is a setting or one without effect", () => {
  expect(new Set(referenceVariables.map(([name]) => name)).size).toBe(114);
  expect(others.map(([name]) => name).sort()).toEqual(Object.keys(settingsWithoutEffect).sort());
});

/** Of a setting whose default is filled in where it is used. */
function defaultText(name: string): string | undefined {
  const setting = Object.values(serviceSettings).find(({ env }) => env === name);
  return setting !== undefined && "defaultText" in setting ? setting.defaultText : undefined;
}

test.each(settings)("%s has the reference's default", (name, _, byDefault) => {
  const written = elsewhere[name] ?? byDefault;
  const expected = valueOf(written === "" ? {} : { [name]: written }, name);

  expect(valueOf({}, name) ?? (expected === undefined ? undefined : defaultText(name))).toEqual(expected);
});

describe("a value that the reference cannot read ends the start", () => {
  const unreadable: Readonly<Partial<Record<ReferenceType, string>>> = {
    integer: "many",
    flag: "maybe",
    duration: "soon",
    decimal: "half",
    pairs: "none",
  };

  test.each(settings.filter(([, type]) => unreadable[type] !== undefined))("%s", (name, type) => {
    const found = valueOf({ [name]: unreadable[type] ?? "" }, name);

    expect(found).toEqual([expect.stringContaining(`${name}: "${unreadable[type] ?? ""}" is not `)]);
  });
});

test("docs/ratelimit-service.md names every one of them", () => {
  const page = readFileSync(new URL("../../../docs/ratelimit-service.md", import.meta.url), "utf8");

  expect(referenceVariables.filter(([name]) => !page.includes(`\`${name}\` `))).toEqual([]);
});
