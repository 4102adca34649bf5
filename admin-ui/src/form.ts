/** Reads the text of form fields. */

/** Returns the text of a field without spaces around it; empty if the form has no such field. */
export function textOf(form: HTMLFormElement, field: string): string {
  const value = new FormData(form).get(field);
  return typeof value === "string" ? value.trim() : "";
}
