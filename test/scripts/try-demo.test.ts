import { expect, test } from "vitest";
import { curlCommandIn } from "../../scripts/try-demo.ts";

test("the curl line of a text is found with its continuation lines", () => {
  const text = "Try it:\n\n  curl http://127.0.0.1:8080/v1 \\\n    -d '{}'\n\nand again\n";
  expect(curlCommandIn(text)).toBe("curl http://127.0.0.1:8080/v1 \\\n    -d '{}'");
});

test("an unfinished line is not a command yet", () => {
  expect(curlCommandIn("Try it:\n  curl http://127.0.0.1")).toBeUndefined();
});
