// Cross-tabs: estimated counts with intervals, a chi-square test, and the same as a CSV file.

import { analysisPage, tookWords } from "./analysis.js";
import { estimated, fromTo } from "./answers.js";
import { offerLines } from "./csv.js";
import { byId, count, el, fill, named, nameText, percent, plural, probability, seconds } from "./dom.js";
import { announce } from "./shell.js";

const MOST_ROWS = 300; // shown
const MOST_COLUMNS = 40;
const FEW = 12; // numbers that need no ranges
const RANGES = "8";
const typed = new Map(); // ranges by column
const NOTHING = byId("found").firstElementChild;
let published = []; // the columns of the release

for (const id of ["rows", "rows-too", "columns"]) byId(id).addEventListener("change", showRanges);
analysisPage("crosstab", "Making a cross-tab", { show, question, answer });

function show(about) {
  const sensitive = [about.sensitive, ...about.others];
  published = [...about.columns, ...sensitive];
  const option = ({ name }, at) => {
    const refused = about.refused[name] !== null && about.refused[name] !== undefined;
    return el("option", { value: at, disabled: refused }, nameText(name));
  };
  const groups = () => [
    el("optgroup", { label: "Sensitive" }, sensitive.map((column) => option(column, published.indexOf(column)))),
    el("optgroup", { label: "Quasi-identifiers" }, about.columns.map(option)),
  ];
  fill(byId("rows"), groups());
  fill(byId("rows-too"), el("option", { value: "" }, "nothing more"), groups());
  fill(byId("columns"), groups());
  const drawable = sensitive.filter(({ name }) => !about.refused[name]);
  const [first, second] = [...about.columns, ...drawable];
  byId("columns").value = published.indexOf(drawable[0] ?? sensitive[0]);
  byId("rows").value = published.indexOf(first === drawable[0] ? (second ?? first) : first);
  typed.clear();
  showRanges();
  fill(byId("found"), NOTHING); // what was found is about another release
  byId("download").hidden = true;
}

/** The columns that are chosen, in order, each once. */
function chosen() {
  const places = ["rows", "rows-too", "columns"].map((id) => byId(id).value).filter((value) => value !== "");
  return [...new Set(places)].map((value) => published[Number(value)]);
}

const hasMany = ({ values }) => values === null || values.length > FEW;

function showRanges() {
  const numbers = chosen().filter(({ kind }) => kind === "number");
  byId("ranges-hint").hidden = numbers.length === 0;
  fill(
    byId("ranges"),
    numbers.map((column) =>
      el(
        "label",
        {},
        el("span", {}, "Ranges of ", named(column.name, 24)),
        withValue(
          el("input", {
            type: "text",
            autocomplete: "off",
            spellcheck: "false",
            placeholder: "each number",
            maxlength: 1000,
            "aria-describedby": "ranges-hint",
            "data-test": "ranges",
            "data-column": column.name,
            input: (event) => typed.set(column.name, event.target.value),
          }),
          typed.get(column.name) ?? (hasMany(column) ? RANGES : ""),
        ),
      ),
    ),
  );
}

function withValue(input, value) {
  input.value = value;
  return input;
}

function question() {
  const nameOf = (id) => published[Number(byId(id).value)].name;
  const fields = [...byId("ranges").querySelectorAll("input")].filter((input) => input.value.trim() !== "");
  return {
    rows: [nameOf("rows"), ...(byId("rows-too").value === "" ? [] : [nameOf("rows-too")])],
    columns: [nameOf("columns")],
    ranges: Object.fromEntries(fields.map((input) => [input.dataset.column, input.value])),
    draws: Number(byId("draws").value),
  };
}

function answer(result) {
  fill(
    byId("found"),
    testWords(result),
    el("div", { class: "crosstab-frame", tabindex: "0", role: "region", "aria-label": "Cross-tab" }, table(result)),
    cutWords(result),
    el(
      "p",
      { class: "hint" },
      `Below each estimate is its 95 % interval, from ${count(result.draws)} draws of who may have what. The darker a cell, the larger its part of the row. `,
      tookWords(result, seconds),
    ),
    result.notes.map((note) => el("p", { class: "hint", "data-test": "note" }, note)),
    el(
      "details",
      { class: "more" },
      el("summary", {}, "The same in Python"),
      el("pre", { class: "python", tabindex: "0", "data-test": "python" }, el("code", {}, result.python)),
    ),
  );
  offer(result);
  announce(`A cross-tab with ${plural(result.rows.values.length, "row")} and ${plural(result.columns.values.length, "column")}.`);
}

const chance = (p) => (p < 0.001 ? "p < 0.001" : `p = ${probability(p)}`);

function testWords({ test }) {
  if (test === null) {
    return el("p", { class: "test", "data-test": "test" }, "One row or one column has all people, so there is nothing to test.");
  }
  const words =
    test.p_value < 0.05
      ? "Rows and columns go together more than chance explains."
      : "What the release shows may be chance: rows and columns need not go together.";
  const [low, high] = test.interval;
  return el(
    "p",
    { class: "test", "data-test": "test" },
    el("strong", {}, words),
    " ",
    el(
      "span",
      { class: "figures" },
      `χ² ${estimated(test.chi2)} (95 %: ${estimated(low)} to ${estimated(high)}), ${plural(test.dof, "degree")} of freedom, `,
      el("b", { "data-test": "p-value" }, chance(test.p_value)),
      `, Cramér's V ${probability(test.cramers_v)}. χ² is what is to be expected of the table, and p accounts for what nobody knows.`,
    ),
  );
}

/** As many digits as an estimate is worth, and as many in each cell. */
const rounded = (number) => (number >= 100 ? count(number) : number.toFixed(1));
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** The table: first how the rows are called, then a line for each, and the sums. */
function table({ rows, columns, estimate, std_error: errors, low, high }) {
  const across = columns.values.slice(0, MOST_COLUMNS);
  const down = rows.values.slice(0, MOST_ROWS);
  const levels = rows.names.length;
  const ofRows = estimate.map(sum);
  const ofColumns = across.map((_, at) => sum(estimate.map((line) => line[at])));
  return el(
    "table",
    { class: "crosstab", "data-test": "crosstab" },
    el(
      "thead",
      {},
      el("tr", {}, el("td", { colspan: levels, class: "sum" }), el("th", { colspan: across.length + 1, scope: "colgroup" }, named(columns.names.join(", "), 60))),
      el(
        "tr",
        {},
        rows.names.map((name, at) => el("th", { scope: "col", class: at === 0 ? "first" : null }, named(name, 40))),
        across.map((value) => el("th", { scope: "col", class: "num" }, named(value.join(", "), 30))),
        el("th", { scope: "col", class: "num" }, "All"),
      ),
    ),
    el(
      "tbody",
      {},
      down.map((values, row) =>
        el(
          "tr",
          { "data-test": "crosstab-row" },
          headers(down, row),
          across.map((_, column) => cell(row, column)),
          el("td", { class: "num sum" }, estimated(ofRows[row])),
        ),
      ),
    ),
    el(
      "tfoot",
      {},
      el(
        "tr",
        {},
        el("th", { scope: "row", colspan: levels }, "All"),
        ofColumns.map((total) => el("td", { class: "num sum" }, estimated(total))),
        el("td", { class: "num sum" }, estimated(sum(ofRows))),
      ),
    ),
  );

  function cell(row, column) {
    const [value, from, to] = [estimate, low, high].map((part) => part[row][column]);
    const share = ofRows[row] > 0 ? value / ofRows[row] : 0;
    const words = `${[...down[row], ...across[column]].map(nameText).join(", ")}: about ${estimated(value)}, standard error ${estimated(errors[row][column])}, ${percent(share)} of its row`;
    const node = el(
      "td",
      { class: "num", title: words },
      rounded(value),
      el("span", { class: "between" }, from === to ? "in all draws" : fromTo([from, to])),
    );
    node.style.setProperty("--share", Math.max(0, Math.min(1, share)).toFixed(3));
    return node;
  }
}

/** The headers of a row; the first of two stands for all rows that it is the same in. */
function headers(rows, at) {
  const [first, ...rest] = rows[at];
  const header = (text, span = null, more = {}) => el("th", { scope: "row", rowspan: span, ...more }, named(text, 60));
  if (rest.length === 0) return header(first, null, { class: "first" });
  if (at > 0 && rows[at - 1][0] === first) return rest.map((text) => header(text));
  const end = rows.findIndex((row, place) => place > at && row[0] !== first);
  const own = header(first, (end === -1 ? rows.length : end) - at, { class: "first", scope: "rowgroup" });
  return [own, ...rest.map((text) => header(text))];
}

function cutWords({ rows, columns }) {
  if (rows.values.length <= MOST_ROWS && columns.values.length <= MOST_COLUMNS) return null;
  return el(
    "p",
    { class: "hint", "data-test": "cut" },
    `Shown are at most ${count(MOST_ROWS)} of ${plural(rows.values.length, "row")} and ${count(MOST_COLUMNS)} of ${plural(columns.values.length, "column")}. The CSV file has all.`,
  );
}

/** A line for each cell, as tidy() has it in Python. */
function offer({ rows, columns, estimate, std_error: errors, low, high }) {
  const lines = rows.values.flatMap((row, at) =>
    columns.values.map((column, place) => [
      ...row,
      ...column,
      ...[estimate, errors, low, high].map((part) => part[at][place]),
    ]),
  );
  offerLines(byId("download"), [[...rows.names, ...columns.names, "estimate", "std_error", "low", "high"], ...lines]);
}
