/** The value of `date` (RFC 9110 §6.6.1). */
let textSecond = -1;
let text = "";

/** Renders a wall time in milliseconds. The text of one second is rendered once. */
export function dateText(nowMs: number): string {
  const second = Math.floor(nowMs / 1_000);
  if (second !== textSecond) {
    textSecond = second;
    text = new Date(second * 1_000).toUTCString();
  }
  return text;
}
