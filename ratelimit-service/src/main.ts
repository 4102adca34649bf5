/** Entry of the rate limit service: everything else is loaded after the engine knows what it compiled at an earlier start. */
import { reuseCompiledCode } from "@gatewayproxy/runtime/compile-cache";
import { startHeapSampling } from "@gatewayproxy/runtime/heap-sampling";

startHeapSampling();
reuseCompiledCode(process.env);
await import("./command.ts");
