// Picking values: a list of checks with a search for columns of few values, from and to for numbers and dates.

import { byId, el, fill, named, set, shownName } from "./dom.js";
import { isNumbers, isRange } from "./expression.js";
import { count, plural } from "./format.js";

const MANY = 12; // values from which on a search, or a range, helps

export class Conditions {
  /** `changed()` after any choice. */
  constructor(columns, sensitive, changed) {
    Object.assign(this, { columns, sensitive, changed });
    this.chosen = []; // as expression.js reads them
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
          shownName(column.name) + (column.name === this.sensitive ? " (sensitive)" : ""),
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
        el("h3", {}, named(name, 60), name === this.sensitive ? el("span", { class: "muted" }, " sensitive") : null),
        el(
          "button",
          {
            type: "button",
            class: "small quiet",
            "aria-label": `Remove the condition on ${shownName(name)}`,
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
    const told = () => {
      const number = condition.picked.size + (condition.nulls ? 1 : 0);
      state.textContent = number ? `${plural(number, "value")} of ${count(column.values.length)}` : "any";
      this.changed();
    };
    const boxes = column.values.map((value, place) =>
      check(shownName(value), value, (on) => {
        if (on) condition.picked.add(place);
        else condition.picked.delete(place);
        told();
      }),
    );
    if (column.nulls)
      boxes.push(
        check("(null)", null, (on) => {
          condition.nulls = on;
          told();
        }),
      );
    const find =
      column.values.length > MANY
        ? el("input", {
            type: "search",
            class: "find",
            placeholder: `Find among ${count(column.values.length)} values`,
            "aria-label": `Find a value of ${shownName(column.name)}`,
            "data-test": "find-pick",
            input: () => {
              const wanted = find.value.trim().toLowerCase();
              boxes.forEach((box) => {
                box.hidden = !box.textContent.toLowerCase().includes(wanted);
              });
            },
          })
        : null;
    return el(
      "div",
      {},
      find,
      el("div", { class: "picks", role: "group", "aria-label": `Values of ${shownName(column.name)}` }, boxes),
      state,
    );
  }

  #range(condition) {
    const { column } = condition;
    const [least, most] = ends(column);
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
          "aria-label": `${shownName(column.name)}: ${title}`,
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
      least !== null ? el("p", { class: "hint" }, `Published: ${least} to ${most}. Both ends are counted.`) : null,
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
function ends(column) {
  if (column.values === null) return [column.min, column.max];
  const values = isNumbers(column) ? [...column.values].sort((a, b) => a - b) : column.values;
  return [values[0], values.at(-1)];
}
