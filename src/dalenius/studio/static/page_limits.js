// Page 2: a change of any limit goes to the server and comes back as a picture of its cost.

import { LimitChart } from "./chart_limits.js";
import { ChartTools } from "./chart_tools.js";
import { byId, count, el, fill, percent, plural, say, sentence, set } from "./dom.js";
import { TradeOff } from "./exposure.js";
import { Groups } from "./groups.js";
import { Compare, Results } from "./results.js";
import {
  allLimits,
  areBands,
  faults,
  ownLimits,
  read,
  RuleControls,
  RuleOfBefore,
} from "./rules.js";
import { chosenTable, fresh, get, initial, post, remove, untilCounted } from "./server.js";
import { onDraft } from "./session.js";
import { announce, clear, complain } from "./shell.js";
import {
  copyLimits,
  Draft,
  markLimits,
  MOST_ROWS,
  showAsking,
  showFailure,
  showStanding,
  Solving,
  takeOffer,
} from "./solving.js";

const draft = new Draft(initial);
let pinned = initial.pinned;
let answer = null;
let wanted = null; // the rule that was chosen last
const before = new RuleOfBefore();

const { table, counted } = await counts();
const chart = new LimitChart(
  {
    rows: byId("rows"),
    space: byId("rows-space"),
    axis: byId("axis"),
    count: byId("chart-count"),
    noMatch: byId("no-match"),
    sortAgain: byId("sort-again"),
  },
  table,
  limitChanged,
);
const groups = new Groups(
  draft,
  table,
  chart,
  { changed, otherValues, take, failed: complain },
  { source: initial.group_source, counted },
);
const tradeOff = new TradeOff(byId("trade-off"), draft, useOdds);
const results = new Results(byId("shown"), byId("answer"), {
  relax: (name, text, event, isGroup) => (isGroup ? groupChanged : limitChanged)(name, text, event),
  useOdds: hideEverybody,
  pointed: (names) => chart.mark(names.map((name) => table.values.indexOf(name))),
});
const compare = new Compare(table);
const canPrice = initial.roles.quasi_identifiers.length > 0 && chosenTable(initial).rows <= MOST_ROWS;
const solving = new Solving(draft, {
  answered,
  failed: (error) => {
    showFailure(error);
    if (error.status === 400) groups.showRefusal(error);
  },
  asking: showAsking,
  rested: () => tradeOff.ask(),
  priced: canPrice ? (price) => results.showStrata(price, draft.protection.strata) : null,
  price: initial.strata_price,
});
const rule = new RuleControls(draft, changed, chooseRule);

results.showStrata(initial.strata_price, canPrice ? draft.protection.strata : "none");
showLimits();
listen();
showKind();
onDraft(showDraft, { flush: () => solving.flush() });
solving.refresh();
if (location.hash === "#bands") {
  history.replaceState(null, "", location.pathname);
  if (draft.limits.grouping.source === "none" && counted.numbers !== null) groups.useBands(new Event("input"));
}

/** Wait for the counts, which are made in the background. */
async function counts() {
  let known = null;
  try {
    known = (await untilCounted(initial)).counted;
    const answer = await get("/api/counts");
    byId("counting").hidden = true;
    for (const id of ["limits", "next-step", "summary-bar"]) byId(id).hidden = false;
    return { table: { ...answer, missing: initial.null_value ?? "missing" }, counted: known };
  } catch (error) {
    fill(
      byId("counting"),
      el(
        "div",
        {},
        el("h2", {}, "The column cannot be counted"),
        el("p", {}, sentence(error.message)),
        error.hint && !known?.bands_advised ? el("p", {}, error.hint) : null,
        offerOthers(known),
        el("a", { href: "/table" }, "Go to the table"),
      ),
    );
    throw error;
  }
}

/** There are too many numbers for limits on each, which can be in bands; or bands, and something that is no number. */
function offerOthers(known) {
  const { limits, solve, protection } = initial;
  const had = areBands(limits.grouping);
  if (!known || (!had && !known.bands_advised)) return null;
  const grouping = { ...limits.grouping, ...(had ? { source: "none" } : { source: "cuts", cuts: known.cuts }) };
  const take = () =>
    post("/api/explore", { limits: { ...limits, values: {}, grouping }, solve, protection })
      .catch((error) => complain(error))
      .then(() => location.reload());
  const words = "Let limits be on bands of numbers instead. Exact numbers are published all the same.";
  const title = had ? "Use no bands" : "Use bands";
  return [
    had ? null : el("p", {}, words),
    el("p", {}, el("button", { type: "button", class: "primary", "data-test": "use-bands", click: take }, title)),
  ];
}

/** Bands take the place of values, or other values that of bands: limits by value are about others then. */
function otherValues() {
  const { limits } = draft;
  const kept = Object.entries(limits.values).filter(([value]) => value === table.missing); // it is no band
  limits.values = Object.assign(Object.create(null), Object.fromEntries(kept));
  before.forget();
  if (limits.rule === "none") limits.rule = "odds";
  rule.show();
}

/** Draw other values, which came with an answer. */
function recount({ values, counts: numbers, n }) {
  Object.assign(table, { values, counts: numbers, total: n, are_bands: areBands(draft.limits.grouping) });
  chart.recount();
  showKind();
  showLimits();
}

/** Whether the rows are values or bands. */
function showKind() {
  say(byId("chart-title"), table.are_bands ? "Limits by band" : "Limits by value");
  say(byId("rule-title"), table.are_bands ? "Rule for all bands" : "Rule for all values");
  say(byId("clear-exceptions"), table.are_bands ? "Use the rule for all bands" : "Use the rule for all values");
  byId("search").placeholder = table.are_bands ? "Find a band" : "Find a value";
  say(byId("sort-first"), table.are_bands ? "number" : "frequency");
  byId("labels-button").hidden = table.are_bands;
  byId("labels").disabled = table.are_bands;
}

/** The draft has changed: draw at once what is known, and ask for the rest. */
function changed(event) {
  tradeOff.drop();
  showLimits();
  if (Object.keys(faults(draft.limits)).length === 0) solving.changed(event);
}

function limitChanged(value, text, event) {
  if (table.are_bands) delete draft.limits.groups[value]; // where a job file may have it
  if (text === null) delete draft.limits.values[value];
  else draft.limits.values[value] = text;
  changed(event);
}

function groupChanged(name, text, event) {
  draft.limits.groups[name] = text;
  changed(event);
}

/** Take the rule by odds, with this number. */
function useOdds(odds, event) {
  draft.limits.odds = odds;
  chooseRule("odds", event);
}

/** The same, without limits of 1 for single values: nobody's value is published outright then. */
function hideEverybody(odds, event) {
  for (const [value, text] of Object.entries(draft.limits.values)) if (read(text) >= 1) delete draft.limits.values[value];
  draft.limits.publish_in_the_clear = null;
  useOdds(odds, event);
}

function showLimits() {
  const { limits, protection } = draft;
  groups.showLimits();
  const all = allLimits(limits, table);
  if (limits.rule === "none") all.forEach((limit, at) => {
    if (Number.isNaN(limit) && groups.tree.covers(at)) all[at] = 1; // that of its group holds for it
  });
  chart.showLimits(all, ownLimits(limits), limits.rule !== "none", protection.known_records);
  groups.tree.refresh();
  const number = Object.keys(limits.values).length;
  byId("exceptions").hidden = number === 0 || limits.rule === "none";
  say(
    byId("exceptions-text"),
    `${table.are_bands ? plural(number, "band has", "bands have") : plural(number, "value has", "values have")} a limit of ${number === 1 ? "its" : "their"} own.`,
  );
}

/** Show another draft, from the server. */
function showDraft(state) {
  draft.replace(state);
  groups.replaced(state.group_source);
  before.forget();
  tradeOff.drop();
  rule.show();
  showSizesRange();
  showLimits();
  solving.replaced();
}

async function chooseRule(name, event) {
  const { limits } = draft;
  wanted = name;
  if (name === "uniform" || name === "l_diversity") {
    const { solve, protection } = draft;
    const first = await post("/api/start", { rule: name, limits, solve, protection }).catch(() => null);
    if (wanted !== name || draft.limits !== limits) return; // somebody chose another one meanwhile
    if (first) limits[name] = first.number;
  }
  before.change(limits, name, table, draft.protection.known_records);
  rule.show();
  changed(event);
}

/** Whether an answer is about the counts that this page shows. */
const hasSameCounts = ({ values, counts: numbers }) =>
  numbers.length === table.counts.length &&
  numbers.every((number, at) => number === table.counts[at]) &&
  values.every((value, at) => value === table.values[at]);

function answered(got, overtaken) {
  const bands = areBands(draft.limits.grouping);
  if (!hasSameCounts(got) || table.are_bands !== bands) {
    if (!table.are_bands && !bands) return location.reload(); // the table changed and was counted again
    if (overtaken) return; // it may be about other bands
    recount(got);
  }
  clear();
  answer = got;
  chart.showAnswer(got, !overtaken);
  groups.showAnswer(got, !overtaken);
  if (draft.limits.rule === "none" && got.groups) showLimits(); // groups cover values
  results.show(got, pinned?.exploration, draft.limits.groups);
  tradeOff.mark(got);
  showStanding(got, take);
  if (pinned) compare.show(pinned, draft, got);
  markLimits(got);
  summarize(got);
  if (got.exact && !overtaken) announce(spoken(got));
}

function take(offer, event) {
  takeOffer(draft, offer);
  showSizesRange();
  changed(event);
}

/** On small screens the results are below the chart, so the main figures stay at the bottom edge. */
function summarize(got) {
  const bar = byId("summary-bar");
  if (got.problem) return fill(bar, el("b", { class: "bad-word" }, "⚠ These limits cannot be kept"));
  const { outright, mean } = got.exposure;
  fill(
    bar,
    el("span", {}, "outright ", el("b", { class: outright > 0 ? "bad-word" : null }, outright > 0 ? count(outright) : "nobody")),
    el("span", {}, "own value ", el("b", {}, percent(mean))),
    el("span", {}, "counts off by ", el("b", {}, percent(got.count_error.typical))),
  );
}

function spoken(got) {
  if (got.problem) return `These limits cannot be kept. ${got.problem.message}`;
  return `Solved. ${sentence(got.exposure.sentence)} ${sentence(got.count_error.sentence)}`;
}

function showSizesRange() {
  byId("min-size").value = draft.solve.min_size ?? "";
  byId("max-size").value = draft.solve.max_size ?? "";
  if (draft.solve.min_size !== null || draft.solve.max_size !== null) byId("sizes-range").open = true;
}

function sizeChanged(key, field, event) {
  const text = field.value.trim();
  const fits = /^([1-9]\d{0,8})?$/.test(text);
  field.setAttribute("aria-invalid", String(!fits));
  if (!fits) return;
  draft.solve[key] = text === "" ? null : Number(text);
  changed(event);
}

/** The same answer, beside another pinned one or none. */
function showAgain() {
  results.show(answer, pinned?.exploration, draft.limits.groups);
}

async function pin() {
  try {
    await post("/api/pin", { label: "A" });
    ({ pinned } = await fresh());
    byId("pin").textContent = "Pin this policy instead";
    showAgain();
    compare.show(pinned, draft, answer);
    announce("Pinned. The comparison is below the chart.");
  } catch (error) {
    complain(error);
  }
}

async function unpin() {
  await remove("/api/pin").catch(complain);
  pinned = null;
  byId("pin").textContent = "Pin this policy";
  showAgain();
  compare.show(null);
  byId("pin").focus();
}

function usePinned(event) {
  draft.limits = copyLimits(pinned.limits);
  before.forget();
  rule.show();
  changed(event);
}

function listen() {
  new ChartTools({ chart, groups, table, draft, changed });
  byId("clear-exceptions").addEventListener("click", (event) => {
    draft.limits = copyLimits({ ...draft.limits, values: {} });
    changed(event);
  });
  byId("min-size").addEventListener("input", (event) => sizeChanged("min_size", event.target, event));
  byId("max-size").addEventListener("input", (event) => sizeChanged("max_size", event.target, event));
  byId("pin").addEventListener("click", pin);
  byId("unpin").addEventListener("click", unpin);
  byId("use-pinned").addEventListener("click", usePinned);
  if (pinned) byId("pin").textContent = "Pin this policy instead";
  showSizesRange();
}
