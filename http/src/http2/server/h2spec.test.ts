/** h2spec, the conformance suite of HTTP/2 and HPACK, in its strict mode against our connection with nothing on top. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describeWith } from "../../../../test/support/describe-with.ts";
import { expect, test } from "vitest";
import { EchoServer } from "../testing/echo-server.ts";

describeWith(["h2spec"], "h2spec", ({ h2spec }) => {
  test("finds nothing that breaks the protocol", { timeout: 120_000 }, async () => {
    // Requests must pile up for the case that exceeds the streams that we allow.
    const server = new EchoServer({ maxConcurrentStreams: 100 });
    server.responseDelayMs = 20;
    try {
      const port = String(await server.listen());
      const { stdout } = await promisify(execFile)(h2spec, ["-h", "127.0.0.1", "-p", port, "-S", "-o", "3"]).catch(
        (error: unknown) => error as { readonly stdout: string },
      );
      expect(stdout).toMatch(/146 tests, \d+ passed, \d+ skipped, 0 failed/);
    } finally {
      server.close();
    }
  });
});
