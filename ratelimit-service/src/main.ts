/**
 * Entry of the rate limit service: everything else is loaded after the engine knows how to allocate and what it compiled
 * earlier.
 */
import { allocateYoung } from "@gatewayproxy/runtime/allocation";
import { reuseCompiledCode } from "@gatewayproxy/runtime/compile-cache";
import { startHeapSampling } from "@gatewayproxy/runtime/heap-sampling";

allocateYoung();
startHeapSampling();
reuseCompiledCode(process.env);
await import("./command.ts");
