// The outcome of a verification, as a list of checks, and of an audit, as a dot plot with its table.

import { count, el, percent, plural, sentence, svg } from "./dom.js";

const SIGNS = { passed: "✓", failed: "✗", "not-checked": "?" };
const ATTACKS = {
  corruption: "Knows records of the bucket",
  negative: "Rules values out",
  learning: "Learns across buckets",
  minimality: "Asks why strata were merged",
  order: "Reads the order of rows",
};

/** The checks of a verdict, as a list. */
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
    noteList(result.notes ?? []),
  );
}

export const noteList = (notes) =>
  notes.length
    ? el(
        "ul",
        { class: "notes" },
        notes.map((note) => el("li", {}, sentence(note))),
      )
    : null;

/** The attacks of an audit, as a table. */
export function audit(result) {
  const played = Object.keys(ATTACKS).filter((name) => result[name]);
  const broken = result.broken ?? [];
  const plot = dotPlot(played.map((name) => [ATTACKS[name], result[name]]));
  return el(
    "div",
    { class: "outcome", "data-test": "audit-result", "data-broken": String(broken.length) },
    el(
      "h3",
      { class: broken.length ? "bad-word" : "good-word" },
      broken.length ? `✗ ${plural(broken.length, "broken promise")}` : "✓ These attacks broke no promise",
    ),
    broken.map((text) => el("p", { class: "bad-word" }, sentence(text))),
    plot,
    el(
      "p",
      { class: "hint" },
      "Success is the share of people whose value the attacker guesses. Baseline is what the buckets alone give away. Control is the success of the same guesses on other people. Intervals are 95 %.",
    ),
    el(
      "details",
      { class: "more", open: plot === null },
      el("summary", {}, "All figures as a table"),
      el("div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": "Attacks" }, auditTable(result, played)),
    ),
    noteList([...(result.notes ?? []), ...played.flatMap((name) => result[name].notes ?? [])]),
  );
}

function auditTable(result, played) {
  const heads = ["People", "Success", "Baseline", "Control", "Above a limit", "Claims", "Right", "Mean limit"];
  return el(
    "table",
    { class: "audit-table" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        el("th", { scope: "col" }, "Attacker"),
        heads.map((head) => el("th", { scope: "col", class: "num" }, head)),
      ),
    ),
    el(
      "tbody",
      {},
      played.map((name) => attackRow(name, result[name])),
    ),
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
    shareCell(attack.success, attack.success_interval),
    shareCell(attack.baseline, attack.baseline_interval),
    shareCell(attack.control, attack.control_interval),
    number(attack.people_above_limit),
    number(attack.claims),
    shareCell(right, attack.claims_right_interval),
    shareCell(attack.mean_limit, null),
  );
}

function shareCell(value, interval) {
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


const MARKS = { success: 5, baseline: 4, control: 4 };

/** Attackers one below the other: success as a dot with its interval, beside baseline and control. */
function dotPlot(attacks) {
  const shown = attacks.filter(([, attack]) => attack.success !== null && attack.success !== undefined);
  if (shown.length === 0) return null;
  const ends = shown.flatMap(([, attack]) =>
    Object.keys(MARKS).map((name) => attack[`${name}_interval`]?.[1] ?? attack[name] ?? 0),
  );
  const most = Math.min(1, Math.ceil(10 * Math.max(...ends, 0.1)) / 10);
  const x = (share) => `${(100 * share) / most}%`;
  const ticks = [0, most / 2, most];
  return el(
    "figure",
    { class: "dots", "data-test": "dot-plot", role: "img", "aria-label": shown.map(plotWords).join(" ") },
    shown.map(([title, attack]) => [
      el("span", { class: "dots-name", "aria-hidden": "true" }, title),
      svg(
        "svg",
        { class: "dots-row", "aria-hidden": "true" },
        svg("line", { class: "dots-line", x1: "0%", x2: "100%", y1: 14, y2: 14 }),
        ["control", "baseline", "success"].map((name) => dot(name, attack, x)),
      ),
      el("span", { class: "dots-figure num", "aria-hidden": "true" }, percent1(attack.success)),
    ]),
    el("span"),
    svg(
      "svg",
      { class: "dots-axis", "aria-hidden": "true" },
      ticks.map((tick, at) =>
        svg("text", { x: x(tick), y: 12, "text-anchor": ["start", "middle", "end"][at] }, percent(tick)),
      ),
    ),
    el(
      "figcaption",
      { class: "dots-legend", "aria-hidden": "true" },
      ["success", "baseline", "control"].map((name) =>
        el(
          "span",
          {},
          svg("svg", { class: "dots-key" }, mark(name, 7, 7)),
          { success: "success, with interval", baseline: "baseline", control: "control" }[name],
        ),
      ),
    ),
  );
}

/** The interval as a line, and the mark on it: filled, an upright line, or hollow, so that colour is not needed. */
function dot(name, attack, x) {
  if (attack[name] === null || attack[name] === undefined) return null;
  const interval = name === "success" ? attack.success_interval : null;
  return [
    interval
      ? svg("line", { class: "dots-interval", x1: x(interval[0]), x2: x(interval[1]), y1: 14, y2: 14 })
      : null,
    svg("svg", { x: x(attack[name]), y: 14, overflow: "visible" }, mark(name, 0, 0)),
  ];
}

const mark = (name, x, y) =>
  name === "baseline"
    ? svg("path", { class: `dot ${name}`, d: `M${x},${y - 7} v14` })
    : svg("circle", { class: `dot ${name}`, cx: x, cy: y, r: MARKS[name] });

const plotWords = ([title, attack]) =>
  `${title}: ${Object.keys(MARKS)
    .map((name) => `${name} ${percent1(attack[name] ?? null)}`)
    .join(", ")}.`;
