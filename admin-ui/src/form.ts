/** What was typed into a form. */

/** The text of a field, without the spaces around it; empty where the form has no such field. */
export function textOf(form: HTMLFormElement, field: string): string {
  const value = new FormData(form).get(field);
  return typeof value === "string" ? value.trim() : "";
}
