/**
 * Checks that a peer does what a case measures before the measurement, so that an invalid configuration cannot look
 * fast: the response through the peer equals the backend's own, and has the expected header of the case.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { requireProgram } from "../support/programs.ts";
import { type BenchCase, largeBytes } from "./cases.ts";
import { applyLoad } from "./load.ts";

/** A response as curl received it. */
interface TestResponse {
  readonly status: string;
  /** Status line and headers, lower case. */
  readonly head: string;
  readonly body: string;
}

const run = promisify(execFile);

/**
 * Throws if the response on `port` differs from the backend's response with status 200, or lacks the expected header.
 */
export async function validate(benchCase: BenchCase, port: number, backendPort: number): Promise<void> {
  if (benchCase.load === "websocket") {
    // The load itself checks every message that it receives.
    await applyLoad({ ...benchCase, connections: 1 }, port, 0, "");
    return;
  }
  if (benchCase.path === "/large") {
    const { length } = (await send(benchCase, port)).body;
    if (length !== largeBytes) {
      throw new Error(`${benchCase.path} on port ${port}: ${length} bytes, expected ${largeBytes}`);
    }
    return;
  }
  const expected = await send({ ...benchCase, load: "wrk", listener: "plain" }, backendPort);
  const response = await send(benchCase, port);
  const where = `${benchCase.method} ${benchCase.path} on port ${port}`;
  if (response.status !== "200") throw new Error(`${where}: status ${response.status}, expected 200: ${response.body}`);
  if (response.body !== expected.body) {
    throw new Error(`${where}: a body of ${response.body.length} characters differs from the backend's own`);
  }
  if (benchCase.expectHeader !== undefined && !response.head.includes(`\r\n${benchCase.expectHeader}:`)) {
    throw new Error(`${where}: no header ${benchCase.expectHeader} in\n${response.head}`);
  }
}

async function send({ method, path, headers, body, load, listener }: BenchCase, port: number): Promise<TestResponse> {
  const args = [
    ...["--silent", "--show-error", "--include", "--max-time", "5", "--request", method],
    ...(listener === "tls" ? ["--insecure"] : []),
    load !== "h2load" ? "--http1.1" : listener === "tls" ? "--http2" : "--http2-prior-knowledge",
    ...Object.entries(headers).flatMap(([name, value]) => ["--header", `${name}: ${value}`]),
    ...(body === undefined ? [] : ["--data-binary", body]),
    `${listener === "tls" ? "https" : "http"}://127.0.0.1:${port}${path}`,
  ];
  const { stdout } = await run(requireProgram("curl"), args, { maxBuffer: 2 * largeBytes });
  const end = stdout.indexOf("\r\n\r\n");
  const head = stdout.slice(0, end).toLowerCase();
  return { status: head.split(" ")[1] ?? "", head, body: stdout.slice(end + 4) };
}
