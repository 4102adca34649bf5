/** Names and labels of what is made for a Gateway. */
import { createHash } from "node:crypto";
import { gatewayGroup } from "../../api/names.ts";

/** Says of an object that we made it; only such objects are ever changed or deleted. */
export const managedByLabel = "app.kubernetes.io/managed-by";
export const managedBy = "gatewayproxy.dev";

/** The Gateway API's own label for what belongs to a Gateway. */
export const gatewayNameLabel = `${gatewayGroup}/gateway-name`;

/** Beside the name, for objects that are not in their Gateway's namespace. */
export const gatewayNamespaceLabel = "gatewayproxy.dev/gateway-namespace";

/** Longest name of a Service, and longest value of a label. */
const longest = 63;

/**
 * A DNS label (RFC 1035) for a text: itself where it is one. What had to be cut or replaced is told apart by eight
 * digits of its hash.
 */
export function boundedName(text: string, max = longest): string {
  const plain = text.toLowerCase().replaceAll(/[^a-z0-9-]/g, "-");
  const startsWell = /^[a-z]/.test(plain) ? plain : `g-${plain}`;
  if (startsWell === text && text.length <= max) return text;
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 8);
  return `${startsWell.slice(0, max - 9).replace(/-+$/, "")}-${hash}`;
}

/** The value of a label for a name of up to 253 characters. */
export function labelValue(name: string): string {
  if (name.length <= longest) return name;
  const hash = createHash("sha256").update(name).digest("hex").slice(0, 8);
  return `${name.slice(0, longest - 9).replace(/[^A-Za-z0-9]+$/, "")}-${hash}`;
}
