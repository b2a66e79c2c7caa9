// The rule for all values: which one, and a slider and a field for each of its numbers.

import { byId, el, fill, say, set } from "./dom.js";
import { read, threeDigits } from "./ratio.js";
import { faults } from "./rules.js";

// From a slider's position (0 to 1) to a number, and back. Theta and uniform are logarithmic; base and beta are
// quadratic, so that small numbers, which matter most, have room.
const SCALES = {
  theta: { number: (at) => 64 ** at, at: (x) => Math.log(Math.max(x, 1)) / Math.log(64) },
  base: { number: (at) => 0.5 * at ** 2, at: (x) => Math.sqrt(Math.min(x, 0.5) / 0.5) },
  uniform: { number: (at) => 1000 ** (at - 1), at: (x) => 1 + Math.log(Math.max(x, 0.001)) / Math.log(1000) },
  l_diversity: { number: (at) => Math.round(1 + 99 * at), at: (x) => (Math.min(x, 100) - 1) / 99 },
  beta: { number: (at) => 32 * at ** 2, at: (x) => Math.sqrt(Math.min(x, 32) / 32) },
};
const FORMULAS = {
  theta: ["min(1, theta · f + base)", " with f the value's share of the records"],
  uniform: ["the same limit", " for every value"],
  l_diversity: ["1 / l", " for every value"],
  beta: ["min(1, (1 + beta) · f)", " with f the value's share of the records"],
  none: ["no rule", ": every value has the limit of its own line"],
};

export class RuleControls {
  /** `changed(event)` after the draft's limits were; `ruleChosen(rule, event)` when the rule is to be another. */
  constructor(draft, changed, ruleChosen) {
    this.draft = draft;
    for (const radio of document.querySelectorAll("input[name=rule]")) {
      radio.addEventListener("change", (event) => ruleChosen(radio.value, event));
    }
    for (const name of Object.keys(SCALES)) {
      const slider = byId(`${name}-slider`);
      const field = byId(name);
      slider.addEventListener("input", (event) => {
        field.value = threeDigits(SCALES[name].number(slider.value / 1000));
        this.#take(name, field.value);
        changed(event);
      });
      field.addEventListener("input", (event) => {
        const wrong = this.#take(name, field.value.trim());
        this.#slide(name);
        if (!wrong) changed(event);
      });
    }
    this.show();
  }

  #take(name, text) {
    this.draft.limits[name] = text;
    const wrong = faults(this.draft.limits);
    set(byId(name), "aria-invalid", name in wrong);
    byId("rule-error").hidden = !(name in wrong);
    say(byId("rule-error"), wrong[name] ?? "");
    set(byId(`${name}-slider`), "aria-valuetext", text);
    return name in wrong;
  }

  #slide(name) {
    const number = read(this.draft.limits[name] ?? "");
    if (number !== null)
      byId(`${name}-slider`).value = String(Math.round(1000 * Math.min(1, Math.max(0, SCALES[name].at(number)))));
  }

  /** Show the draft's rule and numbers. */
  show() {
    const { limits } = this.draft;
    for (const radio of document.querySelectorAll("input[name=rule]")) radio.checked = radio.value === limits.rule;
    for (const group of document.querySelectorAll("[data-rule]")) group.hidden = group.dataset.rule !== limits.rule;
    const [formula, words] = FORMULAS[limits.rule];
    fill(byId("formula"), "Limit = ", el("span", { class: "f" }, formula), words);
    for (const name of Object.keys(SCALES)) {
      byId(name).value = limits[name] ?? "";
      this.#take(name, limits[name] ?? "");
      this.#slide(name);
    }
    byId("rule-error").hidden = true;
  }
}
