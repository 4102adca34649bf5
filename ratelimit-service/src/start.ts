/**
 * The first module of every command that starts the service. It sets up memory allocation and the compile cache before
 * everything else is loaded.
 */
import { disablePretenuring } from "@gatewayproxy/runtime/allocation";
import { disableMaglev, pauseTurboFan, resumeTurboFan } from "@gatewayproxy/runtime/compilers";
import { reuseCompiledCode } from "@gatewayproxy/runtime/compile-cache";
import { startHeapSampling } from "@gatewayproxy/runtime/heap-sampling";
import type { DefaultSet } from "./settings/defaults.ts";

/** The time after which TurboFan works also in a start that takes longer, such as one with a large configuration. */
const longStartMs = 1_000;

/** Runs the command line of this process with the given set of defaults. */
export async function start(defaults: DefaultSet): Promise<void> {
  disablePretenuring();
  disableMaglev();
  pauseTurboFan();
  setTimeout(resumeTurboFan, longStartMs).unref();
  startHeapSampling();
  reuseCompiledCode(process.env);
  const { runCommand } = await import("./command.ts");
  await runCommand(defaults);
}
