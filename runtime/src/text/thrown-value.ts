/** Reads what a `catch` or a rejected promise gives: usually an Error, but JavaScript can throw any value. */

/** Returns the message of an Error, and any other value as text. */
export function errorMessage(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** Returns an Error as it is, and an Error whose message is any other value as text. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
