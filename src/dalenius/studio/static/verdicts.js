// What verifying and auditing found, as a list of checks and a table of attacks.

import { el } from "./dom.js";
import { count, percent, plural, sentence } from "./format.js";

const SIGNS = { passed: "✓", failed: "✗", "not-checked": "?" };
const ATTACKS = {
  corruption: "Knows records of the bucket",
  negative: "Rules values out",
  learning: "Learns across buckets",
  minimality: "Asks why strata were merged",
  order: "Reads the order of rows",
};

/** The checks of a verdict. */
export function verdict(result) {
  return el(
    "div",
    { class: "outcome", "data-test": "verified", "data-verified": String(result.verified) },
    el(
      "h3",
      { class: result.verified ? "good-word" : "bad-word" },
      result.verified ? "✓ Verified: every check passed" : "✗ Not verified",
    ),
    el(
      "ul",
      { class: "checks" },
      (result.checks ?? []).map((check) =>
        el(
          "li",
          { "data-check": check.check, "data-outcome": check.outcome },
          el(
            "b",
            { class: check.outcome },
            SIGNS[check.outcome] ?? "?",
            el("span", { class: "sr-only" }, ` ${check.outcome}: `),
          ),
          el("b", {}, check.check),
          el(
            "span",
            {},
            check.message,
            (check.findings ?? []).map((finding) => el("span", { class: "hint" }, ` ${finding.message}`)),
          ),
        ),
      ),
    ),
    noted(result.notes ?? []),
  );
}

const noted = (notes) =>
  notes.length
    ? el(
        "ul",
        { class: "notes" },
        notes.map((note) => el("li", {}, sentence(note))),
      )
    : null;

/** The attacks of an audit. */
export function audit(result) {
  const played = Object.keys(ATTACKS).filter((name) => result[name]);
  const broken = result.broken ?? [];
  return el(
    "div",
    { class: "outcome", "data-test": "audit-result", "data-broken": String(broken.length) },
    el(
      "h3",
      { class: broken.length ? "bad-word" : "good-word" },
      broken.length
        ? `✗ ${plural(broken.length, "promise was", "promises were")} broken`
        : "✓ No promise was broken by these attacks",
    ),
    broken.map((text) => el("p", { class: "bad-word" }, sentence(text))),
    el(
      "p",
      { class: "hint" },
      "Success is how many people's value the attacker guesses. Baseline is what the buckets alone give, control is what the same guesses get right about other people. Intervals are of 95 %.",
    ),
    el(
      "div",
      { class: "scroll-x", tabindex: "0", role: "region", "aria-label": "Attacks" },
      el(
        "table",
        { class: "audit-table" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col" }, "Attacker"),
            ...["People", "Success", "Baseline", "Control", "Above a limit", "Claims", "Right", "Mean limit"].map(
              (head) => el("th", { scope: "col", class: "num" }, head),
            ),
          ),
        ),
        el(
          "tbody",
          {},
          played.map((name) => attackRow(name, result[name])),
        ),
      ),
    ),
    noted([...(result.notes ?? []), ...played.flatMap((name) => result[name].notes ?? [])]),
  );
}

function attackRow(name, attack) {
  const number = (value) => el("td", { class: "num" }, value === null || value === undefined ? "–" : count(value));
  const right = attack.claims && attack.claims_right !== null ? attack.claims_right / attack.claims : null;
  return el(
    "tr",
    { "data-attack": name },
    el("th", { scope: "row" }, ATTACKS[name], el("span", { class: "hint" }, ` ${name}`)),
    number(attack.people),
    share(attack.success, attack.success_interval),
    share(attack.baseline, attack.baseline_interval),
    share(attack.control, attack.control_interval),
    number(attack.people_above_limit),
    number(attack.claims),
    share(right, attack.claims_right_interval),
    share(attack.mean_limit, null),
  );
}

function share(value, interval) {
  if (value === null || value === undefined) return el("td", { class: "num" }, "–");
  const fraction = (100 * value).toFixed(1);
  return el(
    "td",
    { class: "num" },
    `${fraction} %`,
    interval ? el("span", { class: "interval" }, `${percent1(interval[0])} to ${percent1(interval[1])}`) : null,
  );
}

const percent1 = (value) => (value === null ? percent(null) : `${(100 * value).toFixed(1)} %`);
