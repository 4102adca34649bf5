/**
 * Node's compile cache on disk. Without it every start strips the types from every source file and compiles it. With it
 * a start takes half the processor time, and the process holds some 30 MiB less.
 */
import { enableCompileCache } from "node:module";
import { join } from "node:path";

/**
 * Enables the compile cache. Call it before the program's own modules are loaded; worker threads started later use the
 * cache as well. The folder is `NODE_COMPILE_CACHE`, else `gateway-proxy/compiled` in `XDG_CACHE_HOME` or `~/.cache`.
 * Without such a folder, or with `NODE_DISABLE_COMPILE_CACHE=1`, nothing is cached and nothing fails.
 */
export function reuseCompiledCode(env: NodeJS.ProcessEnv): void {
  // Node reads the variable by itself.
  if (env["NODE_COMPILE_CACHE"] !== undefined) return;
  const { XDG_CACHE_HOME: cacheHome, HOME: home } = env;
  const folder = cacheHome ?? (home === undefined ? undefined : join(home, ".cache"));
  if (folder === undefined) return;
  const { directory } = enableCompileCache(join(folder, "gateway-proxy", "compiled"));
  // Threads read the variable: an enabled cache is not passed on to them.
  if (directory !== undefined) env["NODE_COMPILE_CACHE"] = join(folder, "gateway-proxy", "compiled");
}
