/**
 * Returns the FNV-1a hash of the code units of a text, from 0 to 2³² − 1. It is the same in every thread. Who chooses
 * texts can make them collide.
 */
export function hashOfText(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}
