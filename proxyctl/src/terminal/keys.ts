/** Parses the bytes of a terminal's keyboard. */

/** A key with a meaning. */
export type Key =
  | "up"
  | "down"
  | "pageUp"
  | "pageDown"
  | "home"
  | "end"
  | "scrollUp"
  | "scrollDown"
  | "quit"
  | "interrupt";

/** Escape sequences of xterm and of the Linux console (ECMA-48 cursor keys), and vi's letters. */
const sequences: Readonly<Record<string, Key>> = {
  "\u001b[A": "up",
  "\u001bOA": "up",
  k: "up",
  "\u001b[B": "down",
  "\u001bOB": "down",
  j: "down",
  "\u001b[5~": "pageUp",
  "\u001b[6~": "pageDown",
  " ": "pageDown",
  "\u001b[H": "home",
  "\u001bOH": "home",
  "\u001b[1~": "home",
  g: "home",
  "\u001b[F": "end",
  "\u001bOF": "end",
  "\u001b[4~": "end",
  G: "end",
  K: "scrollUp",
  J: "scrollDown",
  q: "quit",
  Q: "quit",
  "\u001b": "quit",
  // Ctrl-D, then Ctrl-C.
  "\u0004": "quit",
  "\u0003": "interrupt",
};

/**
 * Returns the keys of one read; unknown ones are skipped. A lone escape is a key, since a sequence arrives in one
 * piece.
 */
export function parseKeys(bytes: string): readonly Key[] {
  const pieces = bytes.match(/\u001b\[[0-9;]*[A-Za-z~]|\u001bO[A-Za-z]|[^]/gu) ?? [];
  return pieces.flatMap((piece) => sequences[piece] ?? []);
}
