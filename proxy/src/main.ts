/** Entry of the proxy. Loads everything else after V8's memory settings and compile cache are set. */
import { allocateYoung } from "@gatewayproxy/runtime/allocation";
import { reuseCompiledCode } from "@gatewayproxy/runtime/compile-cache";
import { startHeapSampling } from "@gatewayproxy/runtime/heap-sampling";

allocateYoung();
startHeapSampling();
reuseCompiledCode(process.env);
await import("./command.ts");
