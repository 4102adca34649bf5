/** The version of proxyctl. */
import manifest from "../package.json" with { type: "json" };

/** The version of proxyctl, from its package.json. */
export const clientVersion: string = manifest.version;
