// Whose rows they are, and which sensitive columns belong together: what the first page says below its columns.

import { byId, count, el, fill, listed, named, plural, say, set } from "./dom.js";

/** The sensitive columns as sets: a column by itself, or several of one kind under a name. */
export class SensitiveSets {
  /** `changed()` is called when columns were put together or taken apart, `leaveOut(column)` for a column to forget. */
  constructor({ changed, leaveOut }) {
    Object.assign(this, { changed, leaveOut });
    this.sets = [];
    byId("put-together").addEventListener("click", () => this.#putTogether());
    byId("set-name").addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.#putTogether();
    });
  }

  /** The sets as the server knows them. */
  replace({ sensitive, sets }) {
    this.sets = sets.length > 0 ? structuredClone(sets) : sensitive === null ? [] : [alone(sensitive)];
  }

  /** These columns are sensitive now: others go, and new ones are by themselves. */
  take(columns) {
    this.sets = this.sets
      .map((one) => ({ ...one, columns: one.columns.filter((column) => columns.includes(column)) }))
      .filter((one) => one.columns.length > 0)
      .map((one) => (one.columns.length === 1 ? { ...one, name: null } : one));
    const known = this.sets.flatMap((one) => one.columns);
    this.sets.push(...columns.filter((column) => !known.includes(column)).map(alone));
  }

  /** The columns whose empty cells have no name of their own. */
  get columnsWithoutCodes() {
    const own = (one) => one.null_value !== null || (one.missing ?? []).length > 0;
    return this.sets.filter((one) => !own(one)).flatMap((one) => one.columns);
  }

  /** What the server takes; one plain column is no set. */
  get asked() {
    const [first] = this.sets;
    const plain = this.sets.length === 1 && first.columns.length === 1 && first.null_value === null && first.missing === null;
    return { sensitive: first === undefined ? null : called(first), sets: plain ? [] : this.sets };
  }

  /** The names of the sets. */
  get names() {
    return this.sets.map(called);
  }

  /** Show the sets, and what can be put together. */
  show() {
    byId("sets").hidden = this.sets.flatMap((one) => one.columns).length < 2;
    fill(byId("set-list"), this.sets.map((one) => this.#item(one)));
    const singles = this.sets.filter((one) => one.columns.length === 1);
    byId("together").hidden = singles.length < 2;
    say(byId("set-error"), "");
  }

  #item(one) {
    const [column] = one.columns;
    const several = one.columns.length > 1;
    const codes = one.null_value !== null || one.missing !== null;
    const button = (title, test, click) =>
      el("button", { type: "button", class: "small quiet", "data-test": test, "data-set": called(one), click }, title);
    return el(
      "li",
      { "data-test": "set", "data-set": called(one) },
      several
        ? [
            el(
              "span",
              {},
              el("b", {}, named(called(one), 40)),
              ": has it in any of ",
              listed(one.columns.map((name) => named(name, 30))),
            ),
          ]
        : el(
            "label",
            { class: "check" },
            el("input", { type: "checkbox", value: column, "data-test": "together" }),
            el("span", {}, named(column, 40)),
          ),
      codes ? el("span", { class: "hint" }, " with codes of its own, from the job file") : null,
      several
        ? button("Take apart", "take-apart", () => this.#takeApart(one))
        : button("Not sensitive", "not-sensitive", () => this.leaveOut(column)),
    );
  }

  #takeApart(one) {
    const codes = { null_value: one.null_value, missing: one.missing };
    this.sets = this.sets.flatMap((other) =>
      other === one ? one.columns.map((column) => ({ ...alone(column), ...codes })) : [other],
    );
    this.changed();
  }

  #putTogether() {
    const chosen = [...byId("set-list").querySelectorAll("input:checked")].map((box) => box.value);
    const name = byId("set-name").value.trim();
    const fault =
      chosen.length < 2
        ? "Tick at least two columns of one kind."
        : name === ""
          ? "Give them a name, such as diagnosis."
          : this.names.includes(name) || chosen.includes(name)
            ? "Give them another name: that is the name of a column."
            : "";
    say(byId("set-error"), fault);
    set(byId("set-name"), "aria-invalid", fault !== "" && chosen.length > 1);
    if (fault !== "") return;
    const together = { columns: chosen, name, null_value: null, missing: null };
    const place = this.sets.findIndex((one) => chosen.includes(one.columns[0]));
    const others = this.sets.filter((one) => !chosen.includes(one.columns[0]));
    this.sets = [...others.slice(0, place), together, ...others.slice(place)];
    byId("set-name").value = "";
    this.changed();
  }
}

const alone = (column) => ({ columns: [column], name: null, null_value: null, missing: null });
const called = (one) => one.name ?? one.columns[0];

/** Columns that may say whose row it is, while no column does: each with a button that makes it so. */
export function showRepeats(host, table, roles, makePerson) {
  const chosen = [...roles.values()].includes("person");
  const candidates = chosen ? [] : table.columns.filter(({ repeats, name }) => repeats && roles.get(name) !== "sensitive");
  const serious = candidates.filter(({ name, suggested }) => suggested === "person" || roles.get(name) === "identifier");
  fill(
    host,
    serious.map((column) =>
      el(
        "div",
        { class: "notice warn", "data-test": "repeats", "data-column": column.name },
        el(
          "p",
          {},
          el(
            "strong",
            {},
            named(column.name, 40),
            ` has ${column.distinct_is_exact ? "" : "about "}${count(column.distinct)} different entries in ${count(table.rows)} rows. `,
          ),
          "If they stand for people, people have several rows. Then limits would be about a row, and whoever knows all rows of a person learns more than they allow.",
        ),
        el(
          "button",
          { type: "button", class: "primary", "data-test": "make-person", click: () => makePerson(column.name) },
          "Let limits be about people",
        ),
      ),
    ),
  );
}

/** The column that says whose row it is, if there is one: how many people have how many rows. */
export function showPerson(table, name) {
  byId("person-field").hidden = name === undefined;
  if (name === undefined) return;
  const column = table.columns.find((one) => one.name === name);
  fill(
    byId("person-words"),
    el(
      "b",
      {},
      `${column.distinct_is_exact ? "" : "About "}${plural(column.distinct, "person has", "people have")} ${plural(table.rows, "row")}`,
    ),
    ", by ",
    named(name, 40),
    ". Limits are about people, not rows. The column itself is never published.",
  );
}

/** How many rows people keep at most: null for all of them, undefined if the text is no such number. */
export function mostRows() {
  const text = byId("most-rows").value.trim();
  const fits = /^([1-9]\d{0,8})?$/.test(text);
  set(byId("most-rows"), "aria-invalid", !fits);
  if (!fits) return undefined;
  return text === "" ? null : Number(text);
}

/** What the look at a table is about, where limits are about people. */
export const lookOfRows = () =>
  el(
    "p",
    { class: "hint", "data-test": "look-of-rows" },
    "This look is about rows, of which people may have several: numbers of people are of rows.",
  );
