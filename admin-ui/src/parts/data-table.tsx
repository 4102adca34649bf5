/** A table that scrolls by itself where the page is too narrow, by keyboard as well. */
import type { ComponentChildren } from "preact";

export interface Column {
  readonly head: string;
  readonly isNumber?: boolean;
}

export interface DataTableProps {
  /** Names the table for who cannot see it. */
  readonly label: string;
  readonly caption: string;
  readonly columns: readonly Column[];
  /** A `tr` for each row. */
  readonly rows: ComponentChildren;
  /** Shown below the rows. */
  readonly children?: ComponentChildren;
}

export function DataTable({ label, caption, columns, rows, children }: DataTableProps) {
  return (
    <div class="scrolled" role="region" aria-label={label} tabIndex={0}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ head, isNumber }) => (
              <th key={head} scope="col" class={isNumber === true ? "number" : undefined}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{rows}</tbody>
      </table>
      {children}
    </div>
  );
}
