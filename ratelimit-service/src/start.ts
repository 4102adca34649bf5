/**
 * The beginning of every command that starts the service: everything else is loaded after the engine knows how to allocate
 * and what it compiled earlier.
 */
import { allocateYoung } from "@gatewayproxy/runtime/allocation";
import { reuseCompiledCode } from "@gatewayproxy/runtime/compile-cache";
import { startHeapSampling } from "@gatewayproxy/runtime/heap-sampling";
import type { DefaultSet } from "./settings/defaults.ts";

/** Runs the command line of this process, with the defaults of `set`. */
export async function start(set: DefaultSet): Promise<void> {
  allocateYoung();
  startHeapSampling();
  reuseCompiledCode(process.env);
  const { runCommand } = await import("./command.ts");
  await runCommand(set);
}
