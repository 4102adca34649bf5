/**
 * A table that becomes a list of cards where there is no room for it, each figure beside its column's name. The roles
 * are written out because browsers forget them with the table's layout.
 */
import type { ComponentChildren } from "preact";

export interface Column<Row> {
  readonly head: string;
  readonly isNumber?: boolean;
  readonly cell: (row: Row) => ComponentChildren;
}

export interface DataTableProps<Row> {
  /** Above the table, and its name for who cannot see it. */
  readonly caption: string;
  /** The first names its row. */
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** What makes a row stand out. */
  readonly toneOf?: (row: Row) => "bad" | "warn" | undefined;
}

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
