// Groups of values, and bands of numbers: where they come from, what is in none of them, a rule for each level, and the tree with its limits.

import { byId, count, el, fill, named, plural, say, sentence, set } from "./dom.js";
import { equal, GroupTree } from "./group_tree.js";
import { areBands, levelWords, read, threeDigits } from "./rules.js";
import { post } from "./server.js";
import { offerTitle } from "./solving.js";

const MOST_NAMED = 60; // values that are in no group
const BANDS = ["cuts", "quantiles", "width"];
const BETWEEN_CUTS = /[\s,;]+/;
const LENGTHS = /^\s*[1-9]\d?\s*(,\s*[1-9]\d?\s*)*$/;
const LEVEL_RULES = {
  same: "have the rule of all values",
  none: "have no limits",
  odds: "have odds of their own",
  other: "", // as a job file has it
};

const isNumber = (text) => /^-?\d+(\.\d+)?$/.test(text) || /^-?\d+\/[1-9]\d*$/.test(text);
const FITS = {
  cuts: (text) => text.split(BETWEEN_CUTS).every((cut) => cut === "" || isNumber(cut)),
  quantiles: (text) => /^[1-9]\d{0,3}$/.test(text),
  width: (text) => isNumber(text) && !text.startsWith("-"),
  start: (text) => text === "" || isNumber(text),
};

/** Whether a field of the bands makes sense, level by level: the server says more. */
const fitsIn = (name, text) => text.split(":").every((level) => FITS[name](level.trim()));

export class Groups {
  /**
   * `chart` shows the values of `table`. `changed(event)` is called when the draft has changed, `otherValues()` before
   * that if its values become others, `take(offer, event)` when somebody takes an offer, and `failed(error)` when a
   * file could not be sent. `source` is the file in use, and `counted` what is known of the column.
   */
  constructor(draft, table, chart, { changed, otherValues, take, failed }, { source, counted }) {
    Object.assign(this, { draft, changed, otherValues, take, failed, source, counted });
    this.tree = new GroupTree(draft, table, chart, changed);
    this.levels = []; // names
    this.waiting = false; // for a file
    this.#listen();
  }

  /** Show another draft, from the server, whose file of groups this is. */
  replaced(source) {
    this.source = source;
    this.waiting = false;
  }

  /** Show the draft as it is, before there is an answer about it. */
  showLimits() {
    const { grouping } = this.draft.limits;
    const source = this.waiting ? "file" : areBands(grouping) ? "bands" : grouping.source;
    for (const radio of document.querySelectorAll("input[name=grouping]")) radio.checked = radio.value === source;
    for (const part of document.querySelectorAll("[data-grouping]")) part.hidden = part.dataset.grouping !== source;
    if (document.activeElement !== byId("prefix")) byId("prefix").value = grouping.prefix;
    this.#showBands(grouping, source);
    fill(byId("groups-file-name"), grouping.source === "file" && this.source ? named(this.source.name, 50) : null);
    this.#showUngrouped(this.waiting ? [] : grouping.ungrouped);
    if (source !== this.shown) this.#forget();
    this.shown = source;
    this.tree.showLimits();
    this.#showLevels();
  }

  /** Draw an answer: the groups as the server sees them, or why it cannot. */
  showAnswer(answer, current) {
    if (this.waiting || (!current && !this.tree.hasShapeOf(answer.groups))) return; // it is about other groups
    const { grouping } = this.draft.limits;
    const wanted = grouping.source !== "none";
    this.#showProblem(wanted && !areBands(grouping) && !answer.groups ? answer.problem : null);
    if (!wanted || !answer.groups) return this.#forget();
    this.tree.showAnswer(answer.groups, current);
    this.#showLevels();
  }

  /** The server refused the draft outright. */
  showRefusal({ message, hint }) {
    if (this.draft.limits.grouping.source !== "none") this.#showProblem({ message, hint });
  }

  /** How numbers are put into bands; and an offer to do so, where they are nearly all different. */
  #showBands(grouping, source) {
    const { numbers, cuts, bands_advised: advised } = this.counted;
    document.querySelector("[data-groups=bands]").hidden = numbers === null && source !== "bands";
    const offered = source === "none" && advised;
    byId("bands-offer").hidden = !offered;
    if (offered) {
      document.querySelector("p[data-grouping=none]").hidden = true; // one thing at a time
      say(byId("bands-offer-text"), `A limit on each of ${count(numbers)} numbers says little.`);
      say(byId("use-bands"), `Use ${cuts.split(",").length + 1} bands`);
    }
    if (source !== "bands") return;
    for (const radio of document.querySelectorAll("input[name=bands]")) radio.checked = radio.value === grouping.source;
    for (const part of document.querySelectorAll("[data-bands]")) part.hidden = part.dataset.bands !== grouping.source;
    for (const name of [...BANDS, "start"]) {
      const field = byId(name);
      if (document.activeElement !== field) field.value = grouping[name];
      set(field, "aria-invalid", false);
    }
  }

  /** Put numbers into bands, as Studio suggests it. */
  useBands(event) {
    const { cuts } = this.counted;
    this.#choose(cuts ? { source: "cuts", cuts } : { source: "quantiles" }, event);
  }

  /** Another way to put numbers into bands, which begins with numbers that make sense. */
  #chooseBands(source, event) {
    const { grouping } = this.draft.limits;
    const cuts = this.counted.cuts.split(BETWEEN_CUTS).map(Number);
    const apart = cuts.length > 1 ? (cuts.at(-1) - cuts[0]) / (cuts.length - 1) : 1;
    const width = grouping.width || threeDigits(Number(apart.toPrecision(1)));
    this.#choose({ source, cuts: grouping.cuts || this.counted.cuts, width }, event);
  }

  /** Somebody has typed something else into a field of the bands. */
  #takeBands(name, event) {
    const text = event.target.value.trim();
    const fits = fitsIn(name, text);
    set(event.target, "aria-invalid", !fits);
    if (fits && text !== this.draft.limits.grouping[name]) this.#choose({ [name]: text }, event);
  }

  #forget() {
    this.tree.forget();
    this.#showLevels();
  }

  /** A rule for each level: that of all values, none, or other odds. */
  #showLevels() {
    const host = byId("levels");
    const names = this.tree.tree?.level_names ?? [];
    host.hidden = names.length === 0;
    if (!equal(names, this.levels)) fill(host, names.map((level) => this.#level(level)));
    this.levels = names;
    for (const part of host.children) {
      const [select, field] = part.querySelectorAll("select, input");
      const { levels } = this.draft.limits;
      const own = Object.hasOwn(levels, part.dataset.level) ? levels[part.dataset.level] : null;
      const kind = own === null ? "same" : Object.keys(own).length === 0 ? "none" : "odds" in own ? "odds" : "other";
      const other = select.querySelector("[value=other]");
      other.hidden = kind !== "other";
      say(other, kind === "other" ? levelWords(own) : "");
      select.value = kind;
      field.hidden = kind !== "odds";
      if (kind === "odds" && document.activeElement !== field) field.value = own.odds;
    }
  }

  #level(level) {
    const select = el(
      "select",
      { "data-test": "level-rule", "aria-label": `Rule for groups of the level ${level}` },
      Object.entries(LEVEL_RULES).map(([value, words]) => el("option", { value }, words)),
    );
    const field = el("input", {
      type: "text",
      class: "number",
      inputmode: "decimal",
      autocomplete: "off",
      "data-test": "level-odds",
      "aria-label": `Odds of the level ${level}`,
    });
    const { draft } = this;
    select.addEventListener("change", (event) => {
      if (select.value === "same") delete draft.limits.levels[level];
      else draft.limits.levels[level] = select.value === "odds" ? { odds: draft.limits.odds } : {};
      this.changed(event);
    });
    field.addEventListener("input", (event) => {
      const fits = (read(field.value) ?? 0) >= 1;
      set(field, "aria-invalid", !fits);
      if (!fits) return;
      draft.limits.levels[level] = { ...draft.limits.levels[level], odds: field.value.trim() };
      this.changed(event);
    });
    const numbered = level.startsWith("level ");
    const words = el("span", {}, numbered ? "Groups of " : "Groups of the level ", named(level, 30));
    return el("p", { class: "inline", "data-level": level }, words, select, field);
  }

  #showUngrouped(values) {
    const host = byId("ungrouped");
    host.hidden = values.length === 0;
    if (equal(values, this.ungrouped ?? [])) return;
    this.ungrouped = [...values];
    const back = (value) => (event) => {
      const { grouping } = this.draft.limits;
      grouping.ungrouped = value === null ? [] : grouping.ungrouped.filter((other) => other !== value);
      this.changed(event);
    };
    const chip = (value) =>
      el(
        "button",
        { type: "button", class: "small", "data-test": "regroup", "aria-label": `Put ${value} back`, click: back(value) },
        named(value, 30),
        el("span", { "aria-hidden": "true" }, "×"),
      );
    const more = values.length - MOST_NAMED;
    fill(
      host,
      el("span", {}, "In no group: "),
      values.slice(0, MOST_NAMED).map(chip),
      more > 0 ? el("span", {}, `and ${count(more)} more`) : null,
      values.length > 1 ? el("button", { type: "button", class: "link", click: back(null) }, "Put all back") : null,
    );
  }

  #showProblem(problem) {
    const host = byId("groups-problem");
    const text = JSON.stringify(problem ?? null);
    host.hidden = !problem;
    if (text === this.problem) return;
    this.problem = text;
    if (!problem) return fill(host);
    const { message, hint, offer, values = [] } = problem;
    const take = (event) => this.take(offer, event);
    fill(
      host,
      el("p", {}, el("strong", {}, sentence(message))),
      offer || hint ? el("p", {}, offer ? offer.text : hint) : null,
      values.length > 0
        ? el(
            "details",
            { open: values.length <= MOST_NAMED },
            el("summary", {}, plural(values.length, "value")),
            el("p", { class: "unknown", tabindex: "0", "data-test": "unknown" }, values.map((value) => [named(value, 30), " "])),
          )
        : null,
      offer
        ? el(
            "div",
            { class: "buttons" },
            el("button", { type: "button", class: "primary", "data-test": "groups-offer", click: take }, offerTitle(offer)),
          )
        : null,
    );
  }

  /** Other groups: what was set for the former ones goes. */
  #choose(grouping, event) {
    this.waiting = false;
    const { limits } = this.draft;
    const hadBands = areBands(limits.grouping);
    limits.grouping = { ...limits.grouping, ungrouped: [], ...grouping };
    if (hadBands || areBands(limits.grouping)) this.otherValues();
    limits.groups = Object.create(null);
    limits.levels = Object.create(null);
    this.#showProblem(null);
    this.#forget();
    this.changed(event);
  }

  async #takeFile({ target: field }) {
    const [file] = field.files;
    field.value = "";
    if (!file) return;
    try {
      this.source = await post(`/api/groups?name=${encodeURIComponent(file.name)}`, file);
      this.#choose({ source: "file", file: this.source.id }, new Event("input"));
    } catch (error) {
      if (error.status !== 400) return this.failed(error);
      this.#showProblem({ message: error.message, hint: error.hint });
    }
  }

  #listen() {
    for (const radio of document.querySelectorAll("input[name=grouping]"))
      radio.addEventListener("change", (event) => {
        if (radio.value === "bands") return this.useBands(event);
        if (radio.value !== "file" || this.draft.limits.grouping.file)
          return this.#choose({ source: radio.value }, event);
        this.waiting = true; // nothing changes before it is there
        this.#showProblem(null);
        this.showLimits();
        byId("groups-file").focus();
      });
    byId("prefix").addEventListener("input", (event) => {
      const fits = LENGTHS.test(event.target.value);
      set(event.target, "aria-invalid", !fits);
      if (fits) this.#choose({ source: "prefix", prefix: event.target.value.trim() }, event);
    });
    byId("use-bands").addEventListener("click", (event) => this.useBands(event));
    for (const radio of document.querySelectorAll("input[name=bands]"))
      radio.addEventListener("change", (event) => this.#chooseBands(radio.value, event));
    for (const name of [...BANDS, "start"]) {
      byId(name).addEventListener("change", (event) => this.#takeBands(name, event));
      byId(name).addEventListener("input", ({ target }) => set(target, "aria-invalid", false));
    }
    byId("groups-file").addEventListener("change", (event) => this.#takeFile(event));
  }
}
