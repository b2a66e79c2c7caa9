// What stands above the rows of limits: search, order, scale, names from a file, and one limit for all that were found.

import { byId, count, plural, say, set } from "./dom.js";
import { HOW_TO_WRITE, readLimit } from "./rules.js";
import { get, post } from "./server.js";
import { announce, complain } from "./shell.js";

export class ChartTools {
  /** `changed(event)` is called when limits were set. `of` is the part of an address that names a sensitive set. */
  constructor({ chart, groups, table, draft, changed, of = "" }) {
    Object.assign(this, { chart, groups, table, draft, changed, of });
    byId("search").addEventListener("input", (event) => {
      chart.setFilter(event.target.value);
      this.#showFound();
    });
    byId("labels").addEventListener("change", (event) => this.#takeLabels(event.target));
    const typed = () => byId("found-limit").value.trim();
    byId("found-set").addEventListener("click", (event) => this.#setFound(typed(), event));
    byId("found-rule").addEventListener("click", (event) => this.#setFound(null, event));
    byId("found-limit").addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.#setFound(typed(), event);
    });
    byId("sort").addEventListener("change", (event) => chart.setSort(event.target.value));
    byId("sort-again").addEventListener("click", () => {
      chart.setSort(byId("sort").value);
      byId("sort").focus();
    });
    for (const radio of document.querySelectorAll("input[name=scale]"))
      radio.addEventListener("change", () => {
        chart.setScale(radio.value);
        groups.tree.redraw();
      });
  }

  /** Set the limits of all values that the search found, or give them back to the rule. */
  #setFound(text, event) {
    const wrong = text !== null && readLimit(text) === null;
    set(byId("found-limit"), "aria-invalid", wrong);
    say(byId("found-error"), wrong ? `A limit is above 0 and at most 1. ${HOW_TO_WRITE}` : "");
    if (wrong) return;
    const { found } = this.chart;
    const { values } = this.draft.limits;
    for (const value of found) {
      if (text === null) delete values[value];
      else values[value] = text;
    }
    this.changed(event);
    announce(`${plural(found.length, "limit")} set.`);
  }

  #showFound() {
    const { found } = this.chart;
    byId("found").hidden = byId("search").value.trim() === "" || found.length === 0;
    say(byId("found-text"), `Set ${found.length === 1 ? "the one" : `all ${count(found.length)}`} found to`);
    byId("found-rule").hidden = this.draft.limits.rule === "none";
  }

  /** Names of values, from a file. They are for this page alone. */
  async #takeLabels(field) {
    const [file] = field.files;
    field.value = "";
    if (!file) return;
    try {
      const { labels, of } = await post(`/api/labels${this.of}`, file);
      this.table.labels = (await get(`/api/counts${this.of}`)).labels;
      this.chart.relabel();
      this.groups.tree.redraw();
      this.#showFound();
      announce(`${labels} of ${of} values have a name now.`);
    } catch (error) {
      complain(error);
    }
  }
}
