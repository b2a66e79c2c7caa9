// From picked values to an SQL condition. Names and listed values come quoted from the server; what is typed is quoted
// here.

const NUMBER = /^[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?$/;
const PLAIN = /^-?(0|[1-9]\d*)(\.\d+)?$/;

/** A text as SQL reads it: nothing in it can end the quote. */
const quoted = (text) => `'${text.replaceAll("'", "''")}'`;

/** Whether a column of text holds numbers, not codes such as 00083. */
export const isNumbers = (column) =>
  column.kind === "text" &&
  column.values !== null &&
  column.values.length > 0 &&
  column.values.every((value) => PLAIN.test(value));

/** What is typed as the end of a range, as SQL reads it; null if it cannot be one. */
function end(text, column) {
  if (text === "") return "";
  if (column.kind === "number" || isNumbers(column)) return NUMBER.test(text) ? text : null;
  if (column.type === "DATE") return `DATE ${quoted(text)}`;
  if (column.type.startsWith("TIMESTAMP"))
    return `CAST(${quoted(text)} AS ${column.type.includes("ZONE") ? "TIMESTAMPTZ" : column.type})`;
  return quoted(text);
}

/** Whether both ends of a range can be read. */
export const isRange = ({ column, from, to }) => end(from, column) !== null && end(to, column) !== null;

/** One condition, {column, picked: set of places, nulls} or {column, from, to}; "" if it asks for nothing. */
function condition(wish) {
  return wish.picked ? picked(wish) : ranged(wish);
}

function picked({ column, picked: places, nulls }) {
  const values = [...places].sort((a, b) => a - b).map((place) => column.literals[place]);
  const some =
    values.length === 0
      ? ""
      : values.length === 1
        ? `${column.sql} = ${values[0]}`
        : `${column.sql} IN (${values.join(", ")})`;
  if (!nulls) return some;
  return some ? `(${some} OR ${column.sql} IS NULL)` : `${column.sql} IS NULL`;
}

function ranged({ column, from, to }) {
  const own = isNumbers(column) ? `TRY_CAST(${column.sql} AS DOUBLE)` : column.sql;
  const [low, high] = [end(from, column), end(to, column)];
  if (low && high) return `${own} BETWEEN ${low} AND ${high}`;
  if (low) return `${own} >= ${low}`;
  return high ? `${own} <= ${high}` : "";
}

/** All conditions at once. */
export const expression = (conditions) => conditions.map(condition).filter(Boolean).join(" AND ");
