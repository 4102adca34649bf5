/** Texts of clients as the access log and spans show them: without secrets, and bounded. */
import { redactText } from "@gatewayproxy/runtime/redaction";

/** The longest text of a client that is shown; longer text is cut. */
const maxText = 1_024;

/** Returns a text of a client with secrets redacted, cut after 1,024 characters. */
export function shownText(text: string): string {
  const shown = redactText(text);
  return shown.length > maxText ? `${shown.slice(0, maxText)}…` : shown;
}

/** As `shownText`, for a path: without query and fragment, since a query may hold a key. */
export function shownPath(path: string): string {
  const end = path.search(/[?#]/);
  return shownText(end === -1 ? path : path.slice(0, end));
}
