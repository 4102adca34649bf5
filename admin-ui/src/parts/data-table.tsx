/**
 * A table that becomes a list of cards on a narrow screen, with each column's name next to its value. The roles are
 * explicit, since browsers drop them together with the table layout.
 */
import type { ComponentChildren } from "preact";

/** A column of a table. */
export interface Column<Row> {
  readonly head: string;
  readonly isNumber?: boolean;
  readonly cell: (row: Row) => ComponentChildren;
}

/** Properties of a `DataTable`. */
export interface DataTableProps<Row> {
  /** The text above the table, and its accessible name. */
  readonly caption: string;
  /** The columns; the first one is the row's header. */
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** Highlights a row. */
  readonly toneOf?: (row: Row) => "bad" | "warn" | undefined;
}

/** A table with a row per item. */
export function DataTable<Row>({ caption, columns, rows, keyOf, toneOf }: DataTableProps<Row>) {
  return (
    <div class="table">
      <table role="table">
        <caption>{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map(({ head, isNumber }) => (
              <th key={head} role="columnheader" scope="col" class={isNumber === true ? "number" : undefined}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={keyOf(row)} role="row" class={toneOf?.(row)}>
              {columns.map((column, at) => (
                <Cell key={column.head} column={column} row={row} isFirst={at === 0} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Cell<Row>({ column, row, isFirst }: { column: Column<Row>; row: Row; isFirst: boolean }) {
  const { head, isNumber, cell } = column;
  if (isFirst) {
    return (
      <th role="rowheader" scope="row">
        {cell(row)}
      </th>
    );
  }
  return (
    <td role="cell" data-head={head} class={isNumber === true ? "number" : undefined}>
      <div>{cell(row)}</div>
    </td>
  );
}
