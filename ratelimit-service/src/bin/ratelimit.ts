#!/usr/local/bin/node --max-semi-space-size=4
/**
 * `/bin/ratelimit` of the image: the service with envoyproxy/ratelimit's defaults, for manifests that use this command.
 */
import { disableMaglev, pauseCompilers } from "@gatewayproxy/runtime/compilers";

// Before the modules of the service are loaded, since Node's loader itself has functions that become hot.
disableMaglev();
pauseCompilers();
const { start } = await import("../start.ts");
await start("reference");
