#!/usr/local/bin/node --max-semi-space-size=4
/**
 * `/bin/ratelimit` of the image: the service with envoyproxy/ratelimit's defaults, for manifests that use this command.
 */
import { setFlagsFromString } from "node:v8";

// As `start` does. Node's loader has functions that V8 compiles after a few modules, and a compiler takes 3 MiB then.
setFlagsFromString("--no-maglev");
setFlagsFromString("--no-turbofan");
const { start } = await import("../start.ts");
await start("reference");
