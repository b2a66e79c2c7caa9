// Page 1: choose a table, and give every column a role.

import { byId, count, el, fill, listed, named, nameText, percent, plural, say, sentence } from "./dom.js";
import { findingList } from "./outcomes.js";
import { lookOfRows, mostRows, SensitiveSets, showPerson, showRepeats } from "./people_roles.js";
import { acceptFiles, chosenTable, fresh, initial, isCounting, pause, post, remove, untilCounted } from "./server.js";
import { onDraft } from "./session.js";
import { announce, clear, complain, mark, showTable } from "./shell.js";
import { MOST_ROWS } from "./solving.js";

const ROLES = {
  sensitive: "Sensitive",
  "quasi-identifier": "Quasi-identifier",
  person: "Person",
  identifier: "Identifier",
  "left-out": "Left out",
};

const ALL_DIFFERENT = "nearly-all-different"; // the code of a concern
const QUIET = 400; // milliseconds after the last choice before it is sent

let state = initial;
let shownTable = null; // the table whose columns are shown
let roles = new Map();
let timer = null;
let complete = null; // whether every required role is given
let looking = new AbortController();

const sets = new SensitiveSets({
  changed: () => {
    sets.show();
    rolesChanged();
  },
  leaveOut: (column) => roleChosen(column, "left-out"),
});
const columnsWith = (role) => [...roles].filter(([, its]) => its === role).map(([name]) => name);
const nullsOf = (name) => shownTable.columns.find((column) => column.name === name)?.nulls ?? 0;

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
byId("continue").addEventListener("click", () => continueToLimits("/limits"));
byId("demo").addEventListener("click", loadDemo);
onDraft(showDraft, { flush, ownsRoles: true });
byId("use-suggested").addEventListener("click", () => {
  const before = columnsWith("sensitive").join();
  roles = suggestedRoles(shownTable);
  if (columnsWith("sensitive").join() !== before) showCodes([], []); // they are about another column
  byId("most-rows").value = "";
  showRoles(byId("columns"), shownTable, roles);
  showFilter("all");
  rolesChanged();
});
for (const name of ["null-value", "missing", "not-applicable", "most-rows"]) byId(name).addEventListener("input", rolesChanged);
byId("made-up").addEventListener("click", loadDemo);

/** Show other roles, from the server. */
function showDraft(now) {
  state = now;
  shownTable = null;
  draw();
}

/** Send the roles now, if they are about to be sent. */
async function flush() {
  if (timer === null) return;
  clearTimeout(timer);
  timer = null;
  await save();
}

/** A made-up table to try everything with. */
async function loadDemo() {
  byId("demo").disabled = true;
  try {
    clear();
    await post("/api/demo");
    await reload();
    announce("The made-up hospital is loaded.");
  } catch (error) {
    complain(error);
  } finally {
    byId("demo").disabled = false;
  }
}

async function reload() {
  state = await fresh();
  draw();
}

/** While a table is being read, ask for its state again and again. */
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
  if (!ready) byId("look-panel").hidden = true;
  byId("welcome").hidden = state.tables.length > 0;
  byId("made-up").hidden = state.tables.length === 0 || state.tables.some(({ origin }) => origin === "made-up");
  if (!ready) shownTable = null; // it may return with other columns
  if (!ready || shownTable?.id === table.id) return;
  shownTable = table;
  roles = rolesOf(table, state.roles);
  sets.replace(state.roles);
  byId("most-rows").value = state.roles.most_rows ?? "";
  byId("null-value").value = state.null_value ?? "";
  showCodes(state.missing, state.not_applicable);
  showColumns(byId("columns"), table, roles, roleChosen);
  showFilter("all");
  if (showFault() === null) look();
}

/** How many columns have which role. Choosing one shows these alone, until another is chosen. */
function showFilter(shown) {
  const choice = (role, title, number) => {
    const radio = el("input", { type: "radio", name: "role-filter", value: role, "data-test": `filter-${role}` });
    radio.checked = role === shown;
    radio.addEventListener("change", () => showFilter(role));
    return el("label", {}, radio, el("span", {}, `${title} ${count(number)}`));
  };
  const had = byId("role-filter").contains(document.activeElement);
  fill(
    byId("role-filter"),
    el("legend", { class: "sr-only" }, "Show columns by role"),
    choice("all", "All columns", roles.size),
    Object.entries(ROLES).map(([role, title]) => choice(role, title, columnsWith(role).length)),
  );
  if (had) byId("role-filter").querySelector(":checked")?.focus();
  for (const row of byId("columns").rows) row.hidden = shown !== "all" && row.dataset.role !== shown;
}

/** The numbers of the filter. Rows stay where they are: somebody may be about to choose again. */
function showCounts() {
  for (const radio of byId("role-filter").querySelectorAll("input")) {
    const number = radio.value === "all" ? roles.size : columnsWith(radio.value).length;
    say(radio.nextElementSibling, `${ROLES[radio.value] ?? "All columns"} ${count(number)}`);
  }
}

/** Let Studio look at the table with these roles, and show what there is to know before it is published. */
async function look() {
  looking.abort();
  const host = byId("look");
  byId("look-panel").hidden = false;
  fill(byId("look-link"));
  if (shownTable.rows > MOST_ROWS) {
    const words = "A table of this size is looked at when it is published. What weighs is said then.";
    return fill(host, el("p", { class: "hint" }, words));
  }
  const { signal } = (looking = new AbortController());
  const spinner = el("span", { class: "spinner", "aria-hidden": "true" });
  fill(host, el("p", { class: "hint", "data-test": "looking" }, spinner, " Looking at the table…"));
  try {
    const { concerns } = await post("/api/look", chosenRoles(), { signal });
    const nothing = el("p", { class: "hint" }, "Studio looked at the table with these roles, and has nothing to say.");
    const hasNumbers = concerns.some(({ code }) => code === ALL_DIFFERENT) && (await sensitiveNumbers());
    if (signal.aborted) return;
    const byPeople = columnsWith("person").length > 0 || columnsWith("sensitive").length > 1;
    const found = findingList(concerns, (concern) => whatToDo(concern, hasNumbers));
    fill(host, found && byPeople ? lookOfRows() : null, found ?? nothing);
    const heavy = concerns.filter(({ severity }) => severity !== "note").length;
    if (heavy > 0) fill(byId("look-link"), el("a", { href: "#look-panel" }, `${plural(heavy, "thing")} to look at first`));
  } catch (error) {
    if (error.name === "AbortError") return;
    const ours = ["abandoned", "stale", "not-ready"].includes(error.kind);
    byId("look-panel").hidden = ours;
    fill(host, el("p", { class: "hint" }, "Studio could not look at the table: ", sentence(error.message)));
  }
}

/** A button for what can be done about a concern at once. */
function whatToDo({ code, values, columns }, hasNumbers) {
  const button = (name, title, click) =>
    el("span", { class: "act" }, el("button", { type: "button", class: "small", "data-test": name, click }, title));
  if (code === "missing-codes" && values.length > 0)
    return button("name-missing", "Count them as missing", () => {
      showCodes([...new Set([...readList(byId("missing").value), ...values])], readList(byId("not-applicable").value));
      rolesChanged();
    });
  if (code === "repeated-people")
    return button("person-found", "Let limits be about people", () => roleChosen(columns[0], "person"));
  if (code === ALL_DIFFERENT && hasNumbers)
    return button("limit-bands", "Limit bands of numbers", () => continueToLimits("/limits#bands"));
  return null;
}

/** Whether the sensitive column has nothing but numbers, and what is missing. */
async function sensitiveNumbers() {
  const known = await fresh().then(untilCounted).catch(() => null);
  return (known?.counted.numbers ?? null) !== null;
}

/** The codes of the sensitive column, which the publisher may change. */
function showCodes(missing, notApplicable) {
  byId("missing").value = writeList(missing);
  byId("not-applicable").value = writeList(notApplicable);
  if (missing.length + notApplicable.length > 0) byId("codes").open = true;
}

/** The texts of a list with commas; those with commas of their own are in double quotes. */
function readList(text) {
  const found = text.matchAll(/\s*(?:"((?:[^"]|"")*)"|([^",\s][^,]*))\s*(?=,|$)/g);
  return [...found]
    .map(([, quoted, plain]) => (quoted === undefined ? plain.trim() : quoted.replaceAll('""', '"')))
    .filter((code, at, codes) => codes.indexOf(code) === at);
}

function writeList(texts) {
  return texts.map((text) => (/[",]|^\s|\s$|^$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(", ");
}

function tableItem(table) {
  const chosen = table.id === state.table;
  const details =
    table.status === "reading"
      ? [el("span", { class: "spinner", "aria-hidden": "true" }), " reading…"]
      : table.status === "failed"
        ? `⚠ ${table.error?.message ?? "It cannot be read."} ${table.error?.hint ?? ""}`
        : `${plural(table.rows, "record")}, ${plural(table.columns.length, "column")}${{ uploaded: ", dropped in", "made-up": ", made up" }[table.origin] ?? ""}`;
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
      table.origin !== "given"
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
    el("span", { class: "how" }, chosen && table.status === "ready" ? "✓ in use: " : "", details),
  );
}

async function choose(id) {
  try {
    await post("/api/table", { id });
    shownTable = null;
    await reload();
    announce("Table chosen.");
  } catch (error) {
    complain(error);
  }
}

async function forget(id) {
  try {
    await remove(`/api/tables/${encodeURIComponent(id)}`);
    shownTable = null;
    await reload();
  } catch (error) {
    complain(error);
  }
}

/** At most one column says whose row it is. The last one that did is an identifier. */
function roleChosen(column, role) {
  if (role === "person") for (const other of columnsWith("person")) roles.set(other, "identifier");
  roles.set(column, role);
  showRoles(byId("columns"), shownTable, roles);
  rolesChanged();
}

function rolesChanged() {
  const fault = showFault();
  showCounts();
  looking.abort();
  byId("look-panel").hidden = true;
  fill(byId("look-link"));
  clearTimeout(timer);
  if (fault === null)
    timer = setTimeout(() => flush().then(look).catch(showSaveError), QUIET);
}

/** Show below the columns what is missing; returns it, or null. */
function showFault() {
  const sensitive = columnsWith("sensitive");
  const [person] = columnsWith("person");
  const known = columnsWith("quasi-identifier");
  sets.take(sensitive);
  sets.show();
  showPerson(shownTable, person);
  showRepeats(byId("repeats"), shownTable, roles, (column) => roleChosen(column, "person"));
  const byPeople = person !== undefined || sensitive.length > 1;
  const apart = readList(byId("not-applicable").value);
  const nulls = sets.columnsWithoutCodes.reduce((sum, name) => sum + nullsOf(name), 0);
  const missing = readList(byId("missing").value);
  byId("codes").hidden = sensitive.length === 0;
  byId("not-applicable-field").hidden = byPeople && apart.length === 0;
  byId("null-field").hidden = nulls === 0 && missing.length === 0;
  byId("null-value").placeholder = missing.length > 0 ? "missing" : "unknown";
  say(byId("null-label"), `Value for ${missing.length > 0 ? "what is missing in" : "empty cells of"} the sensitive ${sensitive.length > 1 ? "columns" : "column"}`);
  const unnamed = nulls > 0 && missing.length === 0 && byId("null-value").value.trim() === "";
  const fault =
    sensitive.length === 0
      ? "Choose the sensitive column."
      : known.length === 0
        ? "Choose at least one quasi-identifier."
        : unnamed
          ? `The sensitive ${sensitive.length > 1 ? "columns have" : "column has"} ${plural(nulls, "empty cell")}: give the value they count as.`
          : person !== undefined && nullsOf(person) > 0
            ? `${plural(nullsOf(person), "row has", "rows have")} no person: ${nameText(person)} is empty there. Every row needs one.`
            : mostRows() === undefined
              ? "People keep a whole number of rows, at least 1."
              : byPeople && apart.length > 0
                ? "Nobody can be set apart where people may have several rows or values: name no values that do not apply, and give such values a limit of 1."
                : null;
  const line = byId("roles-state");
  line.classList.toggle("bad", fault !== null);
  if (fault !== null) say(line, fault);
  else
    fill(
      line,
      "Nobody should infer ",
      listed(sets.names.map((name) => el("b", {}, named(name, 40)))),
      person === undefined ? "" : " of a person",
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

const save = () => post("/api/roles", chosenRoles());

function chosenRoles() {
  const [person] = columnsWith("person");
  return {
    ...sets.asked,
    person: person ?? null,
    most_rows: person === undefined ? null : (mostRows() ?? null),
    quasi_identifiers: columnsWith("quasi-identifier"),
    identifiers: columnsWith("identifier"),
    null_value: byId("null-field").hidden ? null : byId("null-value").value.trim() || null,
    missing: readList(byId("missing").value),
    not_applicable: readList(byId("not-applicable").value),
  };
}

/** The table may have changed and is being read again: then there are other columns to choose from. */
function showSaveError(error) {
  if (error.kind === "stale") return; // the page says so
  complain(error);
  if (isCounting(error)) reload().catch(complain);
}

async function continueToLimits(page) {
  clearTimeout(timer);
  if (showFault() !== null) return byId(byId("null-field").hidden ? "columns" : "null-value").focus?.();
  try {
    await save();
    location.assign(page);
  } catch (error) {
    showSaveError(error);
  }
}

/** The roles by column, as the server knows them; the suggested ones where nothing is chosen yet. */
function rolesOf(table, roles) {
  if (roles.sensitive === null) return suggestedRoles(table);
  return new Map(
    table.columns.map(({ name }) => [
      name,
      name === roles.sensitive || roles.sets.some(({ columns }) => columns.includes(name))
        ? "sensitive"
        : name === roles.person
          ? "person"
        : roles.quasi_identifiers.includes(name)
          ? "quasi-identifier"
          : roles.identifiers.includes(name)
            ? "identifier"
            : "left-out",
    ]),
  );
}

/** The suggested role of every column. */
function suggestedRoles(table) {
  return new Map(table.columns.map(({ name, suggested: role }) => [name, role]));
}

/** Draw the columns into a table's body; `choose(column, role)` is called for every choice. */
function showColumns(body, table, roles, choose) {
  fill(
    body,
    table.columns.map((column, at) => columnRow(column, at, table.rows, roles.get(column.name), choose)),
  );
}

/** Update the roles in the rows. */
function showRoles(body, table, roles) {
  [...body.rows].forEach((row, at) => {
    const role = roles.get(table.columns[at].name);
    row.dataset.role = role;
    fill(row.querySelector(".why"), whySuggested(table.columns[at], role));
    for (const radio of row.querySelectorAll("input")) radio.checked = radio.value === role;
  });
}

/** The suggestion for a column, and the reason for it. */
function whySuggested(column, role) {
  if (role === column.suggested) return `As suggested. ${sentence(column.why)}`;
  return [el("b", {}, `Suggested: ${ROLES[column.suggested].toLowerCase()}.`), " ", sentence(column.why)];
}

function columnRow(column, at, rows, role, choose) {
  const label = nameText(column.name);
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
        change: () => choose(column.name, value),
      }),
      el("span", {}, title),
    ),
  );
  return el(
    "tr",
    { "data-test": "column", "data-column": column.name, "data-role": role, "data-suggested": column.suggested },
    el("th", { scope: "row", class: "column-name" }, breakable(named(column.name, 80))),
    el("td", { class: "type", title: column.type }, column.kind === "other" ? column.type.toLowerCase() : column.kind),
    el(
      "td",
      { class: "num", "data-head": "different" },
      `${column.distinct_is_exact ? "" : "about "}${count(column.distinct)}`,
    ),
    el("td", { class: "num", "data-head": "empty" }, emptyCells(column.nulls, rows)),
    el(
      "td",
      { class: "role" },
      el("fieldset", { class: "segments" }, el("legend", { class: "sr-only" }, `Role of ${label}`), radios),
      el("span", { class: "why" }, whySuggested(column, role)),
    ),
  );
}

/** A name that may be broken after its underscores and hyphens. */
function breakable(node) {
  const parts = node.textContent.split(/(?<=[_-])/);
  return fill(node, parts.flatMap((part, at) => (at === 0 ? [part] : [el("wbr"), part])));
}

function emptyCells(nulls, rows) {
  if (!nulls) return "none";
  return rows ? `${count(nulls)} (${percent(nulls / rows)})` : count(nulls);
}
