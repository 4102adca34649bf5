/** The name of an object of the Kubernetes API, in maps and messages. */

/** Returns `namespace/name`; `name` for an object of the whole cluster. */
export function objectKey({
  namespace,
  name,
}: {
  readonly namespace?: string | undefined;
  readonly name: string;
}): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}
