#!/usr/local/bin/node --max-semi-space-size=4
/**
 * `/bin/ratelimit` of the image: the service with envoyproxy/ratelimit's defaults, for manifests that use this command.
 */
import { start } from "../start.ts";

await start("reference");
