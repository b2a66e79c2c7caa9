// Page 2 where people count and not rows: the limits of each sensitive set. A change goes to the server and comes back
// with what it comes to for people; what a release costs is worked out on demand.

import { LimitChart } from "./chart_limits.js";
import { ChartTools } from "./chart_tools.js";
import { byId, count, el, fill, named, plural, say, sentence } from "./dom.js";
import { Groups } from "./groups.js";
import { keepRowsButton, PeoplePlan } from "./people_plan.js";
import { allLimits, faults, ownLimits, policyWords, read, RuleControls, RuleOfBefore } from "./rules.js";
import { fresh, get, initial, untilCounted } from "./server.js";
import { onDraft } from "./session.js";
import { announce, clear, complain, mark } from "./shell.js";
import { copyLimits, Draft, showFailure, showProblem, Solving, takeOffer } from "./solving.js";

const RULE = ["rule", "odds", "floor", "theta", "base", "uniform", "l_diversity", "beta"];
const several = initial.of_sets.length > 1;
const asked = new URLSearchParams(location.search).get("set");
const { name: setName } = initial.of_sets.find(({ name }) => name === asked) ?? initial.of_sets[0];
const address = `?set=${encodeURIComponent(setName)}`;
const ofSet = (state) => state.of_sets.find(({ name }) => name === setName);

/** The draft with the limits that the set comes to. */
class SetDraft extends Draft {
  constructor(state) {
    super({ ...state, limits: ofSet(state).limits });
    this.take(state);
  }

  take(state) {
    this.ownRule = ofSet(state).own_rule;
    this.general = state.limits;
  }

  replace(state) {
    super.replace({ ...state, limits: ofSet(state).limits });
    this.take(state);
  }

  question(exact) {
    return { ...super.question(exact), of_set: setName, own_rule: this.ownRule };
  }
}

const draft = new SetDraft(initial);
const before = new RuleOfBefore();
let answer = null;

const table = await counts();
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
  { changed, otherValues: () => {}, take, failed: complain },
  { source: ofSet(initial).group_source, counted: { numbers: null, cuts: "", bands_advised: false } },
);
const solving = new Solving(draft, {
  answered,
  failed: (error) => {
    showFailure(error);
    if (error.status === 400) groups.showRefusal(error);
  },
  asking: () => {},
});
const plan = new PeoplePlan(byId("plan"), { before: () => solving.flush(), shown: () => showStanding() });
const rule = new RuleControls(draft, changed, chooseRule, "people");

showSets();
showLimits();
listen();
onDraft(showDraft, { flush: () => solving.flush() });
solving.refresh();

/** Wait for the counts, which are made in the background. */
async function counts() {
  try {
    const { counted } = await untilCounted(initial);
    const found = await get(`/api/counts${address}`);
    byId("counting").hidden = true;
    for (const id of ["limits", "next-step"]) byId(id).hidden = false;
    fill(byId("whom"), whomWords(counted));
    return { ...found, whom: "people", missing: ofSet(initial).null_name ?? "missing" };
  } catch (error) {
    fill(
      byId("counting"),
      el(
        "div",
        {},
        el("h2", {}, "The columns cannot be counted"),
        el("p", {}, sentence(error.message)),
        error.hint ? el("p", {}, error.hint) : null,
        el("a", { href: "/table" }, "Go to the table"),
      ),
    );
    throw error;
  }
}

/** Whom the limits are about. */
function whomWords({ total, rows, people_with_several_rows: withSeveral }) {
  const { person, most_rows: most } = initial.roles;
  if (person === null) return `Limits are about ${plural(total, "person", "people")} with one row each.`;
  const left = most === null ? "" : ` Of people with more than ${plural(most, "row")}, ${count(most)} are kept at random: then fewer may have a value.`;
  return `Limits are about ${plural(total, "person", "people")} with ${plural(rows, "row")}, of whom ${count(withSeveral)} have several. Who has a value in any row has it.${left}`;
}

/** Which set is shown, and whether it has a rule of its own. */
function showSets() {
  byId("of-sets").hidden = !several;
  if (!several) return;
  fill(
    byId("set-tabs"),
    initial.of_sets.map(({ name, columns }) =>
      el(
        "a",
        {
          href: `/limits?set=${encodeURIComponent(name)}`,
          "aria-current": name === setName ? "page" : null,
          "data-test": "set-tab",
          "data-set": name,
          title: columns.length > 1 ? columns.join(", ") : null,
        },
        named(name, 30),
      ),
    ),
  );
  for (const radio of document.querySelectorAll("input[name=own-rule]"))
    radio.addEventListener("change", (event) => {
      draft.ownRule = radio.value === "own";
      if (!draft.ownRule) for (const key of RULE) draft.limits[key] = draft.general[key];
      rule.show();
      changed(event);
    });
  showOwnRule();
}

function showOwnRule() {
  if (!several) return;
  for (const radio of document.querySelectorAll("input[name=own-rule]"))
    radio.checked = (radio.value === "own") === draft.ownRule;
  say(byId("rule-title"), draft.ownRule ? `Rule for ${setName} alone` : "Rule for all sensitive columns");
  const none = document.querySelector("input[name=rule][value=none]").closest("label");
  none.hidden = draft.limits.rule !== "none"; // a rule of the others would hold for it, or none for them
}

/** The draft has changed: draw at once what is known, and ask for the rest. */
function changed(event) {
  if (!draft.ownRule) draft.general = { ...draft.general, ...Object.fromEntries(RULE.map((key) => [key, draft.limits[key]])) };
  plan.changed();
  showLimits();
  if (Object.keys(faults(draft.limits)).length === 0) solving.changed(event);
}

function limitChanged(value, text, event) {
  if (text === null) delete draft.limits.values[value];
  else draft.limits.values[value] = text;
  changed(event);
}

function showLimits() {
  const { limits, protection } = draft;
  showOwnRule();
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
    `${plural(number, "value has", "values have")} a limit of ${number === 1 ? "its" : "their"} own.`,
  );
  say(byId("set-policy"), several ? `${setName}: ${policyWords(limits)}.` : "");
}

/** Show another draft, from the server. */
function showDraft(state) {
  if (!state.by_people || ofSet(state) === undefined) return location.assign("/limits");
  draft.replace(state);
  groups.replaced(ofSet(state).group_source);
  before.forget();
  rule.show();
  plan.show(state.people_plan);
  showSizesRange();
  showLimits();
  solving.replaced();
}

function chooseRule(name, event) {
  const { limits } = draft;
  before.change(limits, name, table, draft.protection.known_records);
  rule.show();
  changed(event);
}

function answered(got, overtaken) {
  const same = got.values.length === table.values.length && got.values.every((value, at) => value === table.values[at]);
  if (!same || got.n !== table.total) return location.reload(); // the table changed and was counted again
  clear();
  answer = got;
  chart.showAnswer(got, !overtaken);
  groups.showAnswer(got, !overtaken);
  if (draft.limits.rule === "none" && got.groups) showLimits(); // groups cover values
  const keep = got.most_rows ? keepRowsButton(got.most_rows, () => location.reload()) : null;
  showProblem(got.problem, take, "", keep);
  fill(byId("notes"), (got.notes ?? []).map((note) => el("li", {}, sentence(note))));
  showStanding();
  if (!overtaken) announce(got.problem ? `These limits cannot be kept. ${sentence(got.problem.message)}` : "Nothing is against these limits so far.");
}

/** What is known: that limits cannot be kept, that a plan keeps them, or neither. */
function showStanding() {
  if (answer === null) return;
  const planned = plan?.plan !== null && plan?.plan?.stale === false;
  const [state, words] = answer.problem
    ? ["problem", "cannot be kept"]
    : planned
      ? ["exact", "can be kept"]
      : ["refining", "not worked out yet"];
  const chip = byId("exact");
  chip.dataset.state = state;
  chip.dataset.exact = String(planned || answer.problem !== null);
  say(chip, words);
  mark("limits", answer.problem ? "cannot be kept" : planned ? "done" : "to do");
}

function take(offer, event) {
  takeOffer(draft, offer);
  changed(event);
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

function listen() {
  new ChartTools({ chart, groups, table, draft, changed, of: address });
  byId("clear-exceptions").addEventListener("click", (event) => {
    draft.limits = copyLimits({ ...draft.limits, values: {} });
    changed(event);
  });
  byId("min-size").addEventListener("input", (event) => sizeChanged("min_size", event.target, event));
  byId("max-size").addEventListener("input", (event) => sizeChanged("max_size", event.target, event));
  showSizesRange();
}
