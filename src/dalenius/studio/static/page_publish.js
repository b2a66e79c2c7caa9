// Page 4: look at the whole policy once more, publish it, and check the release.

import { byId, capital, count, el, figure, fill, listed, named, percent, plural, sentence } from "./dom.js";
import { findingList } from "./outcomes.js";
import { keepRowsButton, PeoplePlan } from "./people_plan.js";
import { showPeoplePolicy } from "./people_policy.js";
import { lookOfRows } from "./people_roles.js";
import { plainName, ReleaseCard } from "./release_card.js";
import { areBands, bandWords, levelWords, policyWords } from "./rules.js";
import { chosenTable, fresh, initial, post, untilCounted } from "./server.js";
import { onDraft } from "./session.js";
import { announce, clear as clearNotices, complain, follow, mark, ready, runningTask } from "./shell.js";
import { Draft, markLimits, MOST_ROWS } from "./solving.js";

const cards = new Map(); // release id -> card, so that a card keeps what it shows when others are added
let state = initial;
let exploring = new AbortController();
let busy = false; // publishing
let reason = ""; // why it cannot be published
let clear = null; // whose values would be in the clear, in words

showReleases();
if (byId("publish-form")) {
  showPolicy(byId("policy"), state, null);
  showWarnings(byId("warnings"), state, null);
  offerName();
  byId("publish-form").addEventListener("submit", (event) => {
    event.preventDefault();
    publish();
  });
  byId("clear-meant").addEventListener("change", showButton);
  byId("clear-typed").addEventListener("input", showButton);
  ready();
  if (state.by_people) new PeoplePlan(byId("plan"), { shown: planned });
  explore();
  look();
  resume();
  onDraft((now) => {
    state = now;
    showPolicy(byId("policy"), state, null);
    explore();
    look();
  });
}

const CONFIRMATION = "in the clear";
const isMeant = () =>
  byId("clear-meant").checked && byId("clear-typed").value.trim().toLowerCase() === CONFIRMATION;

/** Publishing is possible unless it is going on, the limits cannot be kept, or values would be in the clear. */
function showButton(fix = null) {
  byId("publish").disabled = busy || reason !== "" || (clear !== null && !isMeant());
  byId("publish-reason").hidden = reason === "";
  fill(byId("publish-reason"), reason, " ", el("a", { href: "/limits" }, "Change the limits"), fix ? [" ", fix] : null);
  byId("clear").hidden = clear === null;
  fill(byId("clear-words"), clear ?? "");
  byId("clear-typing").hidden = !byId("clear-meant").checked;
}

/** Values in the clear are refused until somebody says, for this release alone, that they are meant. */
function refuseClear(words) {
  clear = words;
  byId("clear-meant").checked = false;
  byId("clear-typed").value = "";
  showButton();
}

/** There is a plan of people: what it says belongs to what will be published. */
function planned(plan) {
  state.people_plan = plan;
  if (plan !== null && !plan.stale) refuseClear(plan.in_the_clear);
  showPolicy(byId("policy"), state, null);
}

/** Where people count: whether something is certainly in the way, and how many people there are. */
async function explorePeople(signal) {
  const { counted } = await untilCounted(state);
  const answer = await post("/api/explore", { ...new Draft(state).question(false), draft: false }, { signal });
  state.counted = counted;
  const [first] = (answer.problem?.message ?? "").split("\n");
  reason = answer.problem ? [sentence(first), " ", answer.problem.hint ?? ""] : "";
  showButton(answer.most_rows ? keepRowsButton(answer.most_rows, () => location.reload()) : null);
  showPolicy(byId("policy"), state, null);
  showWarnings(byId("warnings"), state, answer);
}

/** Show again what weighs before publication. */
async function look() {
  if (chosenTable(state)?.rows > MOST_ROWS) return; // it is looked at when it is published
  try {
    const { roles, null_value, missing, not_applicable } = state;
    const { concerns } = await post("/api/look", { ...roles, null_value, missing, not_applicable });
    const heavy = concerns.filter(({ severity }) => severity !== "note");
    fill(
      byId("look"),
      heavy.length ? el("h3", {}, "Know this before you publish") : null,
      heavy.length && state.by_people ? lookOfRows() : null,
      findingList(heavy),
    );
  } catch (error) {
    if (!["abandoned", "stale"].includes(error.kind)) complain(error);
  }
}

/** Show the plan: how many buckets, and whether the limits can be kept at all. */
async function explore() {
  exploring.abort(); // it is about an earlier draft
  const { signal } = (exploring = new AbortController());
  try {
    if (state.by_people) return await explorePeople(signal);
    await untilCounted(state);
    for (const exact of [false, true]) {
      const question = { ...new Draft(state).question(exact), draft: false };
      const answer = await post("/api/explore", question, { signal });
      const certain = answer.status !== "undecided" || answer.exact;
      reason = answer.problem && certain ? sentence(answer.problem.message) : "";
      showButton();
      showPolicy(byId("policy"), state, answer);
      showWarnings(byId("warnings"), state, answer);
      markLimits(answer);
      if (!exact) refuseClear(null);
      if (exact && answer.setting) await price(answer, signal);
    }
  } catch (error) {
    if (error.kind !== "abandoned" && error.kind !== "stale" && error.name !== "AbortError") complain(error);
  }
}

/** What the release will be, with its strata, and whose values it would give away; a very large table is not read. */
async function price(answer, signal) {
  if (chosenTable(state).rows > MOST_ROWS) return;
  const figures = await post("/api/strata-figures", {}, { signal });
  state.strata_price = figures; // of the state as it is now: it may have been loaded anew meanwhile
  if (figures.in_the_clear) refuseClear(clearWords(figures.in_the_clear));
  showPolicy(byId("policy"), state, answer);
}

function clearWords({ people, of, values }) {
  const some = values.slice(0, 4).map(({ value, people }) => [named(value, 40), ` (${count(people)})`]);
  const rest = values.length > 4 ? [`${count(values.length - 4)} more`] : [];
  return [
    el("strong", {}, `${count(people)} of ${plural(of, "person", "people")} would have their value published outright`),
    ...(some.length ? [": ", ...listed([...some, ...rest])] : [""]),
    ". Whoever finds their bucket reads it there.",
  ];
}

function freeName() {
  const table = chosenTable(state)?.name ?? "table";
  const base = plainName(table.replace(/(\.(csv|tsv|parquet|pq|duckdb|db|gz))+/gi, ""));
  const taken = new Set(state.releases.map((release) => release.name));
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? `${base}-release` : `${base}-release-${number}`;
    if (!taken.has(name)) return name;
  }
}

/** Fill in a name, unless somebody is typing one: they may have begun before this script was loaded. */
function offerName() {
  const field = byId("release-name");
  if (document.activeElement === field) field.addEventListener("blur", offerName, { once: true });
  else field.value ||= freeName();
}

/** Offer another name once this one is taken, unless somebody typed one meanwhile. */
function nextName() {
  const field = byId("release-name");
  if (state.releases.some((release) => release.name === field.value.trim())) field.value = freeName();
}

async function publish() {
  clearNotices();
  const name = byId("release-name").value.trim();
  const format = document.querySelector("input[name=format]:checked").value;
  try {
    const { task } = await post("/api/publish", { name, format, in_the_clear: clear !== null && isMeant() });
    await watch(task);
  } catch (error) {
    if (error.kind === "in-the-clear") refuseClear(sentence(error.message));
    else complain(error);
    if (error.most_rows) {
      const button = keepRowsButton(error.most_rows, () => location.reload());
      byId("notices").firstElementChild?.append(el("div", { class: "buttons" }, button));
    }
  }
}

async function resume() {
  const task = runningTask(initial.tasks, ["publish"]);
  if (task) await watch(task.id).catch(complain);
}

async function watch(id) {
  busy = true;
  showButton();
  try {
    const result = await follow(id, byId("publish-progress"), "Publishing");
    if (result === null) return announce("Cancelled. Nothing was published.");
    await reload();
    nextName();
    if (clear !== null) refuseClear(clear); // to be said again for the next one
    mark("publish", "done");
    mark("query", "ready");
    announce("Published.");
    const card = cards.get(result.release);
    card.node.scrollIntoView({
      block: "start",
      behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
    });
    card.verify(false); // by independent code: a publisher wants to see that
  } finally {
    busy = false;
    showButton();
  }
}

async function reload() {
  state = await fresh();
  showReleases();
}

function showReleases() {
  const releases = [...state.releases].reverse();
  for (const release of releases) {
    if (cards.has(release.id)) cards.get(release.id).show(release);
    else cards.set(release.id, new ReleaseCard(release, initial.tasks, reload));
  }
  byId("releases-section").hidden = releases.length === 0;
  const host = byId("releases");
  const nodes = releases.map((release) => cards.get(release.id).node);
  if (nodes.some((node, at) => host.children[at] !== node)) fill(host, nodes);
}

/** Show what will be published and promised. `answer` is the exploration of the draft, or null until it arrives. */
function showPolicy(host, state, answer) {
  const { roles, protection, limits, solve } = state;
  const table = chosenTable(state);
  const left = leftOut(state);
  if (state.by_people) return showPeoplePolicy(host, state, left, strataWords(protection.strata));
  const note = (words) => el("span", { class: "muted" }, words);
  const chips = (names) => names.map((name) => el("span", { class: "column-chip" }, named(name, 60)));
  const line = (title, ...words) => el("div", {}, el("dt", {}, title), el("dd", {}, ...words));
  fill(
    host,
    el(
      "dl",
      { class: "policy-list" },
      line("Exposure", exposureWords(state.strata_price, table, answer)),
      line(
        "Table",
        named(table?.name ?? "", 60),
        table?.rows ? `, ${plural(table.rows, "record")}. Every record is published once.` : "",
      ),
      line("Published unchanged", chips(roles.quasi_identifiers)),
      line(
        "Sensitive",
        chips([roles.sensitive]),
        note([
          " in a separate table, linked only by bucket",
          state.null_value ? `; empty cells count as “${state.null_value}”` : "",
        ]),
      ),
      line(
        "Not published",
        roles.identifiers.length + left.length === 0
          ? "everything is published"
          : chips([...roles.identifiers, ...left]),
      ),
      line("Limits", `${capital(policyWords(limits))}. `, limitsRange(answer, areBands(limits.grouping) ? "limit" : "value")),
      areBands(limits.grouping)
        ? line("Bands", `${bandWords(limits.grouping)}. Exact numbers are published, bucket by bucket.`)
        : limits.grouping.source === "none"
          ? null
          : line("Groups", groupWords(state, answer)),
      state.missing.length === 0 ? null : line("Missing", chips(state.missing), note(" count as one value")),
      state.not_applicable.length === 0
        ? null
        : line("Does not apply", chips(state.not_applicable), note(" published outright, and set apart")),
      line(
        "Buckets",
        bucketWords(answer),
        solve.min_size === 1 ? " Buckets of one record are allowed." : ` None has fewer than ${count(solve.min_size ?? 2)}.`,
        solve.max_size ? ` None has more than ${count(solve.max_size)}.` : "",
      ),
      line(
        "Known records",
        protection.known_records
          ? `The limits hold against somebody who knows up to ${plural(protection.known_records, "record")} of a bucket.`
          : "None: the limits hold against somebody who knows no other record of the bucket.",
      ),
      line(
        "Fake values",
        protection.fake_values
          ? `${capital(plural(protection.fake_values, "fake value"))} in every bucket${protection.avoid_ruled_out ? ", replacing those that can be ruled out" : ""}.`
          : "None.",
      ),
      line("Strata", strataWords(protection.strata), priceWords(state.strata_price)),
    ),
  );
}

/** Show what deserves a second look. */
function showWarnings(host, state, answer) {
  const table = chosenTable(state);
  const identifying = (table?.columns ?? [])
    .filter((column) => column.suggested === "identifier" && state.roles.quasi_identifiers.includes(column.name))
    .map((column) => column.name);
  const left = leftOut(state);
  const warn = (kind, ...words) => el("div", { class: `notice ${kind}` }, el("p", {}, ...words));
  fill(
    host,
    identifying.length
      ? warn(
          "warn",
          el("strong", {}, "This looks like it identifies people, and it would be published: "),
          listed(identifying.map((name) => named(name, 40))),
          ". ",
          el("a", { href: "/table" }, "Change the role"),
        )
      : null,
    left.length
      ? warn(
          "",
          `${left.length === 1 ? "One column is" : `${count(left.length)} columns are`} left out: `,
          listed([
            ...left.slice(0, 6).map((name) => named(name, 30)),
            ...(left.length > 6 ? [`${left.length - 6} more`] : []),
          ]),
          ".",
        )
      : null,
    (answer?.notes ?? []).map((note) => warn("warn", sentence(note))),
  );
}

function leftOut(state) {
  const { sensitive, sets, person, quasi_identifiers: known, identifiers } = state.roles;
  const used = new Set([sensitive, person, ...sets.flatMap(({ columns }) => columns), ...known, ...identifiers]);
  return (chosenTable(state)?.columns ?? []).map((column) => column.name).filter((name) => !used.has(name));
}

/** The first thing to know about a release. */
function exposureWords(price, table, answer) {
  if (answer && !answer.setting) return "There is no release under these limits.";
  if (table?.rows > MOST_ROWS) return "Of a table of this size it is known once the release is made.";
  return !price || price.stale ? "…" : sentence(price.exposure_sentence);
}

function limitsRange(answer, word) {
  if (!answer?.limits?.length) return "";
  const rows = plural(answer.limits.length, word);
  const [least, most] = answer.limits.reduce(
    ([low, high], limit) => [Math.min(low, limit), Math.max(high, limit)],
    [1, 0],
  );
  return least === most
    ? `${rows}, each at most ${percent(least)}.`
    : `${rows}, between ${percent(least)} and ${percent(most)}.`;
}

function groupWords({ limits: { grouping, levels }, group_source: source }, answer) {
  const words = { icd9: "By ICD-9", icd10: "By ICD-10", prefix: "By first characters" };
  const from = words[grouping.source] ?? ["From ", named(source?.name ?? "", 40)];
  if (!answer?.groups) return [from, "."];
  const { names, limits } = answer.groups;
  const limited = limits.filter((limit) => limit !== null).length;
  const apart = grouping.ungrouped.length;
  const rules = Object.entries(levels).map(([level, own]) => [
    ` Level ${level}: `,
    Object.keys(own).length > 0 ? levelWords(own) : "no rule",
    ".",
  ]);
  return [
    from,
    `: ${plural(names.length, "group")}, ${limited === names.length ? "all" : count(limited)} with a limit.`,
    rules,
    apart > 0 ? ` ${capital(plural(apart, "value is", "values are"))} in no group.` : "",
  ];
}

function bucketWords(answer) {
  if (!answer) return "…";
  if (!answer.setting) return "These limits cannot be kept.";
  return `About ${plural(
    answer.setting.reduce((sum, group) => sum + group.buckets, 0),
    "bucket",
  )} of ${sizeWords(answer.setting[0].size, answer.setting.at(-1).size)} in one stratum, MSE ${figure(answer.mse)}.`;
}

const sizeWords = (least, most) =>
  least === most ? plural(most, "record") : `${count(least)} to ${plural(most, "record")}`;

/** What the release will have; the figures of one stratum are those of the limits page. */
function priceWords(price) {
  if (!price || price.stale || price.strata <= 1) return "";
  return ` ${capital(plural(price.strata, "stratum", "strata"))}, MSE ${figure(price.mse)} in the release.`;
}

function strataWords(strata) {
  if (strata === "auto") return "Automatic.";
  if (strata === "none") return "None: one stratum.";
  if (Array.isArray(strata)) return el("span", {}, "By ", listed(strata.map((name) => named(name, 30))), ".");
  return `At most ${count(strata)}.`;
}
