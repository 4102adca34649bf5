/** The value of the label of all objects of a Gateway (GEP-1762), for names that are too long. */
import { trimEnd } from "@gatewayproxy/runtime/trim-end";
import { createHash } from "node:crypto";

/** The maximum length of the value of a label in Kubernetes. */
const longest = 63;

/** Returns the value for the name of a Gateway: the name, or for more than 63 characters a prefix of it and a hash. */
export function gatewayLabelValue(name: string): string {
  if (name.length <= longest) return name;
  const hash = createHash("sha256").update(name).digest("hex").slice(0, 8);
  return `${trimEnd(name.slice(0, longest - 9), /[^A-Za-z0-9]/)}-${hash}`;
}
