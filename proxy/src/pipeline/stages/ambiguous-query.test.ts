import { expect, test } from "vitest";
import { RecordingRequest } from "../testing/recording-request.ts";
import { rejectAmbiguousQuery } from "./ambiguous-query.ts";

const rule = { queryNames: new Set(["user"]) };

test.each(["/items", "/items?user=a", "/items?user=a&user=a", "/items?other=a&other=b"])("%s continues", (path) => {
  const request = new RecordingRequest({ head: { path }, rule });
  expect(request.run(rejectAmbiguousQuery)).toBe("continue");
});

test("a parameter that a limit reads, with two values, is rejected", () => {
  const request = new RecordingRequest({ head: { path: "/items?user=a&user=b" }, rule });
  expect(request.run(rejectAmbiguousQuery)).toBe("responded");
  expect(request.calls).toEqual(["reply BadRequest"]);
});

test("a parameter that the match has read, with two values, is rejected", () => {
  const request = new RecordingRequest();
  request.isQueryAmbiguous = true;
  expect(request.run(rejectAmbiguousQuery)).toBe("responded");
  expect(request.calls).toEqual(["reply BadRequest"]);
});
