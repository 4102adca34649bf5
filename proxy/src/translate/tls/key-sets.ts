/** Reads the public keys of issuers of tokens from ConfigMaps. */
import type { ConfigMap } from "../../api/config-map.ts";
import { readKeySet } from "../../authentication/json-web-keys.ts";
import type { PublicJwk } from "../../ir/authentication.ts";
import type { Read } from "./certificates.ts";

/** The field with the key set, unless it is the only field. */
const keySetField = "jwks";

/** Reads a key set (RFC 7517 §5): the value `jwks`, or the only value. */
export function readKeySetOf({ data }: ConfigMap): Read<{ readonly keys: readonly PublicJwk[] }> {
  const values = Object.values(data);
  const text = Object.hasOwn(data, keySetField) ? data[keySetField] : values.length === 1 ? values[0] : undefined;
  if (text === undefined) {
    return {
      kind: "malformed",
      error: `has no value ${keySetField}, and ${values.length} others of which none is meant`,
    };
  }
  const result = readKeySet(text);
  if (result.kind === "malformed") return { kind: "malformed", error: `holds a key set that ${result.error}` };
  return { kind: "read", value: { keys: result.keys } };
}
