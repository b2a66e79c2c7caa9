// Page 1: choose a table, and say what its columns are.

import { post, remove } from "./api.js";
import { rolesOf, showColumns, showRoles, suggested } from "./columns_table.js";
import { byId, el, fill, named, say } from "./dom.js";
import { count, listed, plural } from "./format.js";
import { announce, clear, complain } from "./notices.js";
import { mark, showTable } from "./shell.js";
import { chosenTable, fresh, initial, isCounting, pause } from "./state.js";
import { acceptFiles } from "./upload.js";

const QUIET = 400; // milliseconds after the last choice before it is sent

let state = initial;
let shown = null; // the table whose columns are drawn
let roles = new Map();
let timer = null;
let complete = null; // whether every role that has to be is there

const having = (role) => [...roles].filter(([, its]) => its === role).map(([name]) => name);
const nullsOf = (name) => shown.columns.find((column) => column.name === name)?.nulls ?? 0;

draw();
watch();
acceptFiles(
  initial.upload_limit,
  async (id) => {
    clear();
    await reload();
    await choose(id);
  },
  complain,
);
byId("continue").addEventListener("click", goOn);
byId("use-suggested").addEventListener("click", () => {
  roles = suggested(shown);
  showRoles(byId("columns"), shown, roles);
  rolesChanged();
});
byId("null-value").addEventListener("input", rolesChanged);

async function reload() {
  state = await fresh();
  draw();
}

/** While a table is being read, look again and again. */
async function watch() {
  for (;;) {
    await pause(state.tables.some((table) => table.status === "reading") ? 400 : 2500);
    const reading = state.tables.some((table) => table.status === "reading");
    if (!reading) continue;
    try {
      await reload();
    } catch (error) {
      complain(error);
    }
  }
}

function draw() {
  fill(byId("tables"), state.tables.map(tableItem));
  showTable(state);
  const table = chosenTable(state);
  const ready = table?.status === "ready";
  byId("columns-panel").hidden = !ready;
  byId("no-table").hidden = state.tables.length > 0;
  if (!ready) shown = null; // it may come back with other columns
  if (!ready || shown?.id === table.id) return;
  shown = table;
  roles = rolesOf(table, state.roles);
  byId("null-value").value = state.null_value ?? "";
  showColumns(byId("columns"), table, roles, roleChosen);
  tell();
}

function tableItem(table) {
  const chosen = table.id === state.table;
  const how =
    table.status === "reading"
      ? [el("span", { class: "spinner", "aria-hidden": "true" }), " reading…"]
      : table.status === "failed"
        ? `⚠ ${table.error?.message ?? "It cannot be read."} ${table.error?.hint ?? ""}`
        : `${plural(table.rows, "record")}, ${plural(table.columns.length, "column")}${table.origin === "uploaded" ? ", dropped in" : ""}`;
  return el(
    "li",
    {
      class: `${chosen ? "chosen" : ""} ${table.status}`,
      "data-test": "table",
      "data-status": table.status,
      "aria-current": chosen ? "true" : null,
    },
    el("span", { class: "name" }, named(table.name, 80)),
    el(
      "span",
      { class: "acts" },
      chosen || table.status !== "ready"
        ? null
        : el(
            "button",
            { type: "button", class: "small", "data-test": "choose", click: () => choose(table.id) },
            "Use",
            el("span", { class: "sr-only" }, ` ${table.name}`),
          ),
      table.origin === "uploaded"
        ? el(
            "button",
            {
              type: "button",
              class: "small quiet",
              "aria-label": `Delete ${table.name}`,
              "data-test": "delete-table",
              click: () => forget(table.id),
            },
            "Delete",
          )
        : null,
    ),
    el("span", { class: "how" }, chosen && table.status === "ready" ? "✓ in use: " : "", how),
  );
}

async function choose(id) {
  try {
    await post("/api/table", { id });
    shown = null;
    await reload();
    announce("Table chosen.");
  } catch (error) {
    complain(error);
  }
}

async function forget(id) {
  try {
    await remove(`/api/tables/${encodeURIComponent(id)}`);
    shown = null;
    await reload();
  } catch (error) {
    complain(error);
  }
}

/** There is one sensitive column: the one before goes back to what was suggested, or is left out. */
function roleChosen(column, role) {
  if (role === "sensitive") {
    for (const [other, its] of roles) {
      if (its !== "sensitive" || other === column) continue;
      const idea = shown.columns.find(({ name }) => name === other).suggested;
      roles.set(other, idea === "sensitive" ? "left-out" : idea);
    }
  }
  roles.set(column, role);
  showRoles(byId("columns"), shown, roles);
  rolesChanged();
}

function rolesChanged() {
  const fault = tell();
  clearTimeout(timer);
  if (fault === null) timer = setTimeout(() => save().catch(notSaved), QUIET);
}

/** What is missing, or null. Said below the columns. */
function tell() {
  const [sensitive] = having("sensitive");
  const known = having("quasi-identifier");
  const nulls = sensitive === undefined ? 0 : nullsOf(sensitive);
  byId("null-field").hidden = nulls === 0;
  const unnamed = nulls > 0 && byId("null-value").value.trim() === "";
  const fault =
    sensitive === undefined
      ? "Say which column is sensitive."
      : known.length === 0
        ? "Choose at least one quasi-identifier."
        : unnamed
          ? `The sensitive column has ${plural(nulls, "empty cell")}: say which value they count as.`
          : null;
  const line = byId("roles-state");
  line.classList.toggle("bad", fault !== null);
  if (fault !== null) say(line, fault);
  else
    fill(
      line,
      "Nobody shall infer ",
      el("b", {}, named(sensitive, 40)),
      ` from ${known.length === 1 ? "" : `${count(known.length)} columns: `}`,
      listed([
        ...known.slice(0, 4).map((name) => named(name, 24)),
        ...(known.length > 4 ? [`${known.length - 4} more`] : []),
      ]),
      ".",
    );
  byId("continue").setAttribute("aria-disabled", String(fault !== null));
  if (complete !== (fault === null)) byId("role-help").open = fault !== null;
  complete = fault === null;
  mark("table", fault === null ? "done" : "to do");
  return fault;
}

async function save() {
  const [sensitive] = having("sensitive");
  const nullValue = nullsOf(sensitive) > 0 ? byId("null-value").value.trim() : null;
  await post("/api/roles", {
    sensitive,
    quasi_identifiers: having("quasi-identifier"),
    identifiers: having("identifier"),
    null_value: nullValue,
  });
}

/** The table may have changed, and is read again: then there are other columns to choose from. */
function notSaved(error) {
  complain(error);
  if (isCounting(error)) reload().catch(complain);
}

async function goOn() {
  clearTimeout(timer);
  if (tell() !== null) return byId(byId("null-field").hidden ? "columns" : "null-value").focus?.();
  try {
    await save();
    location.assign("/limits");
  } catch (error) {
    notSaved(error);
  }
}
