// The columns of a table, each with its role to be chosen.

import { el, fill, named, shownName } from "./dom.js";
import { count, percent, sentence } from "./format.js";

const ROLES = {
  sensitive: "Sensitive",
  "quasi-identifier": "Quasi-identifier",
  identifier: "Identifier",
  "left-out": "Left out",
};

/** The roles as the server has them, by column; the suggested ones where nothing was chosen yet. */
export function rolesOf(table, roles) {
  if (roles.sensitive === null) return suggested(table);
  return new Map(
    table.columns.map(({ name }) => [
      name,
      name === roles.sensitive
        ? "sensitive"
        : roles.quasi_identifiers.includes(name)
          ? "quasi-identifier"
          : roles.identifiers.includes(name)
            ? "identifier"
            : "left-out",
    ]),
  );
}

/** The suggested role of every column. */
export const suggested = (table) => new Map(table.columns.map(({ name, suggested: role }) => [name, role]));

/** Draw the columns into a table's body; `chosen(column, role)` is told of a choice. */
export function showColumns(body, table, roles, chosen) {
  fill(
    body,
    table.columns.map((column, at) => row(column, at, table.rows, roles.get(column.name), chosen)),
  );
}

/** Show other roles in the rows that are there. */
export function showRoles(body, table, roles) {
  [...body.rows].forEach((row, at) => {
    const role = roles.get(table.columns[at].name);
    row.dataset.role = role;
    fill(row.querySelector(".why"), why(table.columns[at], role));
    for (const radio of row.querySelectorAll("input")) radio.checked = radio.value === role;
  });
}

/** What was suggested for a column, and for which reason. */
function why(column, role) {
  if (role === column.suggested) return `As suggested. ${sentence(column.why)}`;
  return [el("b", {}, `Suggested: ${ROLES[column.suggested].toLowerCase()}.`), " ", sentence(column.why)];
}

function row(column, at, rows, role, chosen) {
  const label = shownName(column.name);
  const radios = Object.entries(ROLES).map(([value, title]) =>
    el(
      "label",
      {},
      el("input", {
        type: "radio",
        name: `role-${at}`,
        value,
        checked: value === role,
        "data-test": "role",
        "data-column": column.name,
        "data-role": value,
        change: () => chosen(column.name, value),
      }),
      el("span", {}, title),
    ),
  );
  return el(
    "tr",
    { "data-test": "column", "data-column": column.name, "data-role": role, "data-suggested": column.suggested },
    el("th", { scope: "row", class: "column-name" }, named(column.name, 80)),
    el("td", { class: "type", title: column.type }, column.kind === "other" ? column.type.toLowerCase() : column.kind),
    el(
      "td",
      { class: "num", "data-head": "different" },
      `${column.distinct_is_exact ? "" : "about "}${count(column.distinct)}`,
    ),
    el("td", { class: "num", "data-head": "empty" }, empties(column.nulls, rows)),
    el(
      "td",
      { class: "role" },
      el("fieldset", { class: "segments" }, el("legend", { class: "sr-only" }, `Role of ${label}`), radios),
      el("span", { class: "why" }, why(column, role)),
    ),
  );
}

function empties(nulls, rows) {
  if (!nulls) return "none";
  return rows ? `${count(nulls)} (${percent(nulls / rows)})` : count(nulls);
}
