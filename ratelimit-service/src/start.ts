/**
 * What every command that starts the service loads first. It sets up memory allocation and the compile cache before
 * everything else is loaded.
 */
import { disablePretenuring } from "@gatewayproxy/runtime/allocation";
import { reuseCompiledCode } from "@gatewayproxy/runtime/compile-cache";
import { startHeapSampling } from "@gatewayproxy/runtime/heap-sampling";
import type { DefaultSet } from "./settings/defaults.ts";

/** Runs the command line of this process with the given set of defaults. */
export async function start(defaults: DefaultSet): Promise<void> {
  disablePretenuring();
  startHeapSampling();
  reuseCompiledCode(process.env);
  const { runCommand } = await import("./command.ts");
  await runCommand(defaults);
}
