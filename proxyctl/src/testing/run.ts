/** Runs a command line in this process and captures its output. */
import { PassThrough, Writable } from "node:stream";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { runProxyctl } from "../app/program.ts";
import type { World } from "../io.ts";

/** The result of a command line. */
export interface Run {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The output of a command. */
export class Captured extends Writable {
  readonly #chunks: Buffer[] = [];

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#chunks.push(chunk);
    done();
    this.emit("captured");
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  get text(): string {
    return this.bytes.toString("utf8");
  }
}

/** Runs a command line. Standard output is not a terminal; standard input is `stdin`. */
export async function proxyctl(
  args: readonly string[],
  world: Partial<World> & { readonly input?: string } = {},
): Promise<Run> {
  const [stdout, stderr] = [new Captured(), new Captured()];
  const stdin = new PassThrough();
  stdin.end(world.input ?? "");
  const io = { stdin, stdout, stderr, env: {}, clock: systemClock, signal: new AbortController().signal, ...world };
  const exitCode = await runProxyctl(args, io);
  return { exitCode, stdout: stdout.text, stderr: stderr.text };
}
