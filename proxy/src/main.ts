/** Entry of the proxy. Loads everything else after V8's memory settings and compile cache are set. */
import { disablePretenuring } from "@gatewayproxy/runtime/allocation";
import { reuseCompiledCode } from "@gatewayproxy/runtime/compile-cache";
import { startHeapSampling } from "@gatewayproxy/runtime/heap-sampling";

disablePretenuring();
startHeapSampling();
reuseCompiledCode(process.env);
await import("./command.ts");
