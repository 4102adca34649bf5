/** Explains why a page or a list is empty, and what would change that. */
import type { ComponentChildren } from "preact";

/** The text of an empty page or list. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p>
        <strong>{title}</strong>
      </p>
      {children}
    </div>
  );
}
