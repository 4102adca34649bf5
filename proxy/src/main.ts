/** Entry of the proxy. Loads everything else after V8's memory settings and compile cache are set. */
import { countBuffersInHeapLimit, disablePretenuring } from "@gatewayproxy/runtime/allocation";
import { reuseCompiledCode } from "@gatewayproxy/runtime/compile-cache";
import { startHeapSampling } from "@gatewayproxy/runtime/heap-sampling";

disablePretenuring();
countBuffersInHeapLimit();
startHeapSampling();
reuseCompiledCode(process.env);
await import("./command.ts");
