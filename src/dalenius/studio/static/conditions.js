// Conditions of a count query: controls to pick values and ranges, and the SQL they stand for.

import { byId, count, el, fill, named, nameText, plural, set } from "./dom.js";

const NUMBER = /^[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?$/;
const PLAIN = /^-?(0|[1-9]\d*)(\.\d+)?$/;

/** A text as SQL reads it: nothing in it can end the quote. */
const quoted = (text) => `'${text.replaceAll("'", "''")}'`;

/** Whether a column of text holds numbers, not codes such as 00083. */
const isNumbers = (column) =>
  column.kind === "text" &&
  column.values !== null &&
  column.values.length > 0 &&
  column.values.every((value) => PLAIN.test(value));

/** The typed end of a range, as SQL reads it; null if it is not valid. */
function endSql(text, column) {
  if (text === "") return "";
  if (column.kind === "number" || isNumbers(column)) return NUMBER.test(text) ? text : null;
  if (column.type === "DATE") return `DATE ${quoted(text)}`;
  if (column.type.startsWith("TIMESTAMP"))
    return `CAST(${quoted(text)} AS ${column.type.includes("ZONE") ? "TIMESTAMPTZ" : column.type})`;
  return quoted(text);
}

/** Whether both ends of a range are valid. */
const isRange = ({ column, from, to }) => endSql(from, column) !== null && endSql(to, column) !== null;

/** One condition, {column, picked: set of places, nulls} or {column, from, to}; "" if nothing is chosen. */
function conditionSql(condition) {
  return condition.picked ? picksSql(condition) : rangeSql(condition);
}

function picksSql({ column, picked: places, nulls }) {
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

function rangeSql({ column, from, to }) {
  const own = isNumbers(column) ? `TRY_CAST(${column.sql} AS DOUBLE)` : column.sql;
  const [low, high] = [endSql(from, column), endSql(to, column)];
  if (low && high) return `${own} BETWEEN ${low} AND ${high}`;
  if (low) return `${own} >= ${low}`;
  return high ? `${own} <= ${high}` : "";
}

/** All conditions as SQL. Names and listed values come quoted from the server; typed text is quoted here. */
export const expression = (conditions) => conditions.map(conditionSql).filter(Boolean).join(" AND ");

const MANY = 12; // from this many values on, a search or a range helps

export class Conditions {
  /** `sensitive` are the names of the sensitive columns. `changed()` is called after any choice. */
  constructor(columns, sensitive, changed) {
    Object.assign(this, { columns, sensitive, changed });
    this.chosen = []; // as `expression` reads them
    fill(byId("conditions"));
    this.#offer();
  }

  #offer() {
    const used = new Set(this.chosen.map((condition) => condition.column));
    const free = this.columns.filter((column) => !used.has(column));
    const select = byId("add");
    fill(
      select,
      el("option", { value: "" }, free.length ? "choose a column" : "all columns are used"),
      free.map((column) =>
        el(
          "option",
          { value: this.columns.indexOf(column) },
          nameText(column.name) + (this.sensitive.includes(column.name) ? " (sensitive)" : ""),
        ),
      ),
    );
    select.onchange = () => {
      if (select.value !== "") this.#add(this.columns[Number(select.value)]);
    };
  }

  #add(column) {
    const { name, kind, values } = column;
    const ranged =
      values === null || (values.length > MANY && (kind === "number" || kind === "date" || isNumbers(column)));
    const condition = ranged ? { column, from: "", to: "" } : { column, picked: new Set(), nulls: false };
    this.chosen.push(condition);
    const box = el(
      "div",
      { class: "condition", "data-test": "condition", "data-column": name },
      el(
        "div",
        { class: "condition-head" },
        el("h3", {}, named(name, 60), this.sensitive.includes(name) ? el("span", { class: "muted" }, " sensitive") : null),
        el(
          "button",
          {
            type: "button",
            class: "small quiet",
            "aria-label": `Remove the condition on ${nameText(name)}`,
            "data-test": "remove-condition",
            click: () => this.#remove(condition, box),
          },
          "Remove",
        ),
      ),
      ranged ? this.#range(condition) : this.#picks(condition),
    );
    byId("conditions").append(box);
    this.#offer();
    box.querySelector("input")?.focus();
    this.changed();
  }

  #remove(condition, box) {
    this.chosen = this.chosen.filter((one) => one !== condition);
    box.remove();
    this.#offer();
    byId("add").focus();
    this.changed();
  }

  #picks(condition) {
    const { column } = condition;
    const state = el("p", { class: "hint" }, "any");
    const update = () => {
      const number = condition.picked.size + (condition.nulls ? 1 : 0);
      state.textContent = number ? `${plural(number, "value")} of ${count(column.values.length)}` : "any";
      this.changed();
    };
    const boxes = column.values.map((value, place) =>
      check(nameText(value), value, (on) => {
        if (on) condition.picked.add(place);
        else condition.picked.delete(place);
        update();
      }),
    );
    if (column.nulls)
      boxes.push(
        check("(null)", null, (on) => {
          condition.nulls = on;
          update();
        }),
      );
    const find =
      column.values.length > MANY
        ? el("input", {
            type: "search",
            class: "find",
            placeholder: `Find among ${count(column.values.length)} values`,
            "aria-label": `Find a value of ${nameText(column.name)}`,
            "data-test": "find-pick",
            input: () => {
              const text = find.value.trim().toLowerCase();
              boxes.forEach((box) => {
                box.hidden = !box.textContent.toLowerCase().includes(text);
              });
            },
          })
        : null;
    return el(
      "div",
      {},
      find,
      el("div", { class: "picks", role: "group", "aria-label": `Values of ${nameText(column.name)}` }, boxes),
      state,
    );
  }

  #range(condition) {
    const { column } = condition;
    const [least, most] = extremesOf(column);
    const dated = column.type === "DATE";
    const numeric = column.kind === "number" || isNumbers(column);
    const field = (key, title, example) =>
      el(
        "label",
        {},
        title,
        el("input", {
          type: dated ? "date" : "text",
          inputmode: numeric ? "decimal" : null,
          autocomplete: "off",
          placeholder: example ?? "",
          "aria-label": `${nameText(column.name)}: ${title}`,
          "data-test": key,
          input: (event) => {
            condition[key] = event.target.value.trim();
            set(event.target, "aria-invalid", !isRange(condition));
            if (isRange(condition)) this.changed();
          },
        }),
      );
    return el(
      "div",
      {},
      el("div", { class: "range" }, field("from", "from", least), field("to", "to", most)),
      least !== null
        ? el("p", { class: "hint" }, `Published values: ${least} to ${most}. Both ends are included.`)
        : null,
    );
  }
}

function check(label, value, changed) {
  const box = el("input", {
    type: "checkbox",
    "data-test": "pick",
    "data-value": value ?? "",
    change: () => changed(box.checked),
  });
  return el(
    "label",
    { class: "check" },
    box,
    el("span", { dir: "auto", title: label.length > 30 ? label : null }, label),
  );
}

/** The smallest and the largest value, as text. */
function extremesOf(column) {
  if (column.values === null) return [column.min, column.max];
  const values = isNumbers(column) ? [...column.values].sort((a, b) => a - b) : column.values;
  return [values[0], values.at(-1)];
}
