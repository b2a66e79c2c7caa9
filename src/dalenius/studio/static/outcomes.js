// What is known about a release: the verdict, its findings, who is exposed, the checks, and the attackers.

import { el, percent, plural, sentence, svg } from "./dom.js";

const SIGNS = { passed: "✓", failed: "✗", "not-checked": "?" };

/** Findings, the heaviest first, each with what to do; `act(finding)` gives a button for one, or null. */
export const findingList = (findings, act = () => null) =>
  findings.length
    ? el(
        "ul",
        { class: "findings" },
        findings.map((finding) =>
          el(
            "li",
            { class: finding.tone, "data-test": "finding", "data-code": finding.code, "data-severity": finding.severity },
            el("b", { class: "mark" }, el("span", { "aria-hidden": "true" }, finding.mark), ` ${finding.word}`),
            el("span", {}, el("span", { class: "what" }, finding.message), " ", finding.answer, act(finding)),
          ),
        ),
      )
    : null;

/** The one verdict: a sign, words, and the reason. */
export const verdictBlock = ({ tone, mark, words, why }, advice) =>
  el(
    "div",
    { class: `verdict ${tone}`, "data-test": "verdict", "data-advice": advice },
    el("span", { class: "verdict-mark", "aria-hidden": "true" }, mark),
    el("h4", {}, words),
    el("p", {}, why),
  );

const [WIDE, HIGH, STEP] = [470, 84, 40]; // of the chart of people

/**
 * People by the probability that the release gives to their own value, or to the likeliest where people have several:
 * a column for each tenth, and for certainty.
 */
export function exposureChart(bands, words, several) {
  const most = Math.max(...bands, 1);
  const everybody = bands.reduce((sum, people) => sum + people, 0);
  return svg(
    "svg",
    { class: "bands", viewBox: `0 0 ${WIDE} 138`, role: "img", "aria-label": words, "data-test": "exposure-chart" },
    bands.map((people, at) => {
      const certain = at === bands.length - 1;
      const [x, height] = [at * STEP + (certain ? 18 : 2), people > 0 ? Math.max(1.5, (HIGH * people) / most) : 0];
      return [
        svg("rect", { class: certain ? "clear" : "band", x, y: 18 + HIGH - height, width: STEP - 4, height }),
        people > 0
          ? svg("text", { class: "share", x: x + 18, y: 13 + HIGH - height, "text-anchor": "middle" }, short(people / everybody))
          : null,
        certain ? null : svg("text", { x, y: 118, "text-anchor": "middle" }, String(10 * at)),
      ];
    }),
    svg("path", { class: "axis", d: `M0 ${18.5 + HIGH} h402 M416 ${18.5 + HIGH} h40` }),
    svg("text", { x: 402, y: 118, "text-anchor": "middle" }, "100 %"),
    svg("text", { x: 436, y: 134, "text-anchor": "middle" }, "outright"),
    svg("text", { x: 0, y: 134 }, `probability of a person's ${several ? "likeliest" : "own"} value`),
  );
}

const short = (share) => (share < 0.005 ? "<1 %" : `${Math.round(100 * share)} %`);

/** The checks of a verdict, as a list. */
export function verdict(result) {
  const checks = result.checks ?? [];
  const passed = checks.filter((check) => check.outcome === "passed").length;
  return el(
    "details",
    { class: "outcome", "data-test": "verified", "data-verified": String(result.verified), open: !result.verified },
    el(
      "summary",
      { class: result.verified ? null : "bad-word" },
      result.verified ? `All ${checks.length} checks passed` : `✗ Not verified: ${passed} of ${checks.length} checks passed`,
    ),
    el(
      "ul",
      { class: "checks" },
      checks.map((check) =>
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

/** The attackers of an audit: a plot, and a row each. `rows` has their cells, as in the report. */
export function audit(result, attackers, rows) {
  const broken = result.broken ?? [];
  const plays = played(result, attackers);
  return el(
    "div",
    { class: "outcome", "data-test": "audit-result", "data-broken": String(broken.length) },
    el("h4", {}, "Attackers"),
    broken.map((text) => el("p", { class: "bad-word" }, sentence(text))),
    el("p", { "data-test": "audit-words" }, auditWords(result, attackers)),
    dotPlot(plays),
    el("div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": "Attackers" }, auditTable(attackers, rows)),
    noteList([...new Set([...(result.notes ?? []), ...plays.flatMap(([, play]) => play.notes ?? [])])]),
  );
}

/** The attackers of every sensitive column, by name; behind that of the column, if there are several. */
function played(result, attackers) {
  const parts = [result, ...(result.other_columns ?? [])];
  return parts.flatMap((part) =>
    attackers
      .filter(({ name }) => part[name])
      .map(({ name }) => [parts.length > 1 ? `${part[name].column}: ${name}` : name, part[name]]),
  );
}

/** That no promise was broken never stands alone where claims are right more often than allowed. */
function auditWords(result, attackers) {
  const broken = (result.broken ?? []).length;
  const promise = broken ? `${plural(broken, "promise")} broken` : "No promise was broken";
  const above = (result.findings ?? []).filter(({ code }) => code === "above-limit");
  const attackersOf = (findings) => new Set(findings.map(({ attacker }) => attacker)).size; // about values, and groups
  const known = above.filter(({ severity }) => severity === "note"); // they know more than was planned for
  const beyond = attackersOf(known);
  if (above.length > known.length)
    return `${promise}, but ${plural(attackersOf(above), "attacker is", "attackers are")} right more often than the limits allow.`;
  if (beyond > 0)
    return `${promise}. Only ${plural(beyond, "attacker", "attackers")} against whom the limits are not meant to hold ${beyond === 1 ? "is" : "are"} right more often than they allow.`;
  const claims = played(result, attackers).flatMap(([, play]) => [play, play.groups ?? {}]);
  const unknown = claims.some((one) => one.claims && one.claims_right === null);
  if (unknown) return `${promise}. How often the attackers are right is not known without the table.`;
  const clear = (result.findings ?? []).some(({ code }) => code === "in-the-clear");
  const end = clear ? " But no attacker is needed for values that are published outright." : "";
  return `${promise}${broken ? ". No" : ", and no"} attacker is right noticeably more often than the limits allow.${end}`;
}

const HEADS = [
  "Guessed right",
  "From the bucket alone",
  "By chance",
  "People above a limit",
  "Claims",
  "Claims right",
  "Allowed",
  "Points",
];

function auditTable(attackers, rows) {
  const who = new Map(attackers.map((attacker) => [attacker.name, attacker.who]));
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
        HEADS.map((head) => el("th", { scope: "col", class: "num" }, head)),
      ),
    ),
    el(
      "tbody",
      {},
      rows.map((row) =>
        el(
          "tr",
          { "data-attack": row.name },
          el("th", { scope: "row" }, row.name, el("span", { class: "hint" }, whoIs(who, row.name))),
          row.cells.map((cell) => el("td", { class: "num" }, cell)),
          el("td", { class: `num points ${row.tone}` }, row.mark ? `${row.mark} ${row.points}` : row.points),
        ),
      ),
    ),
  );
}

/** Who an attacker is, who may be one on a column: "insulin: union". */
const whoIs = (who, name) => who.get(name) ?? who.get(name.split(": ").at(-1)) ?? "";

const percent1 = (value) => (value === null ? percent(null) : `${(100 * value).toFixed(1)} %`);

const NAMES = { success: "guessed right", baseline: "from the bucket alone", control: "by chance" };
const MARKS = { success: 5, baseline: 4, control: 4 };

/** Attackers one below the other: how often they guess right, beside what the bucket and chance give. */
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
          name === "success" ? `${NAMES[name]}, with interval` : NAMES[name],
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
    .map((name) => `${NAMES[name]} ${percent1(attack[name] ?? null)}`)
    .join(", ")}.`;
