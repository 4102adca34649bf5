/** The label of everything that is made for a Gateway (GEP-1762), and how it holds names that are too long for it. */
import { trimEnd } from "@gatewayproxy/runtime/trim-end";
import { createHash } from "node:crypto";
import { gatewayGroup } from "../api/names.ts";

export const gatewayNameLabel = `${gatewayGroup}/gateway-name`;

/** What Kubernetes takes of a label's value. */
const longest = 63;

/** The value for a Gateway's name: itself, or where that is longer than 63 characters as much as fits, and a hash. */
export function gatewayLabelValue(name: string): string {
  if (name.length <= longest) return name;
  const hash = createHash("sha256").update(name).digest("hex").slice(0, 8);
  return `${trimEnd(name.slice(0, longest - 9), /[^A-Za-z0-9]/)}-${hash}`;
}
