// Page 3: known records, fake values and strata, with what each costs.

import { settingText, SizesChart } from "./chart_setting.js";
import { byId, el, figure, fill, listed, named, plural, probability, say, sentence, set } from "./dom.js";
import { PeoplePlan } from "./people_plan.js";
import { chosenTable, initial, post, untilCounted } from "./server.js";
import { onDraft } from "./session.js";
import { announce, clear, complain, follow, mark, ready, runningTask } from "./shell.js";
import {
  Draft,
  markLimits,
  MOST_ROWS,
  showAsking,
  showFailure,
  showProblem,
  showStanding,
  Solving,
  takeOffer,
} from "./solving.js";

const MOST = { known: 1000, fakes: 1000 };
const OWN_WORDS = /^(With [\d,]+ strata the loss|The price of protection)/i; // the page says these in its own words
const KEYS = { known: "known_records", fakes: "fake_values" };

const draft = new Draft(initial);
const sizes = new SizesChart();
const bars = { with: methodLine("own"), without: methodLine("") };
const words = el("p", { "data-test": "price-words" });
const shown = el("p", { "data-test": "exposure" });
const counts = el("p", { "data-test": "count-error" });
const setting = el("div", { class: "block", "data-test": "setting" }, el("h3", {}, "Bucket sizes"), sizes.node);
const figures = el(
  "div",
  { class: "answer" },
  shown,
  counts,
  el(
    "div",
    { class: "methods", "aria-hidden": "true" },
    el("span", {}, "Without"),
    ...bars.without.cells,
    el("span", {}, "With"),
    ...bars.with.cells,
  ),
  words,
  setting,
);
const byPeople = initial.by_people; // then what a release costs is worked out on demand
const canPrice = !byPeople && initial.roles.quasi_identifiers.length > 0 && chosenTable(initial).rows <= MOST_ROWS;
const solving = new Solving(draft, {
  answered,
  failed: showFailure,
  asking: byPeople ? () => {} : showAsking,
  priced: canPrice ? strataResult : null,
  price: initial.strata_price,
});

let plan = null;
if (byPeople) plan = new PeoplePlan(byId("price"), { before: () => solving.flush() });
else fill(byId("price"), figures);
if (initial.strata_price) strataResult(initial.strata_price);
listen();
show();
ready();
onDraft(showDraft, { flush: () => solving.flush() });
untilCounted(initial).then(() => solving.refresh(), complain);
resume();

function methodLine(kind) {
  const meter = el("div", { class: `meter ${kind}` });
  const number = el("span", { class: "num" });
  return { meter, number, cells: [el("div", {}, meter), number] };
}

/** Show the draft in the controls. Somebody may have typed numbers before this script was loaded. */
function show() {
  const { protection } = draft;
  const typed = Object.keys(MOST).filter((id) => byId(id).value !== byId(id).defaultValue);
  byId("avoid").checked = protection.avoid_ruled_out;
  byId("avoid").disabled = protection.fake_values === 0;
  const { strata } = protection;
  const kind = Array.isArray(strata) ? "columns" : typeof strata === "number" ? "number" : strata;
  for (const radio of document.querySelectorAll("input[name=strata]")) radio.checked = radio.value === kind;
  byId("strata-most").value = typeof strata === "number" ? strata : byId("strata-most").value || "40";
  byId("strata-names").hidden = kind !== "columns";
  mark("protection", protection.known_records || protection.fake_values ? "set" : "optional");
  for (const id of typed) numberChanged(id, byId(id).value, new Event("input"));
}

/** Show another draft, from the server. */
function showDraft(state) {
  draft.replace(state);
  for (const [id, key] of Object.entries(KEYS)) {
    byId(id).value = byId(id).defaultValue = String(draft.protection[key]);
    set(byId(id), "aria-invalid", false);
  }
  const { strata } = draft.protection;
  for (const box of byId("strata-names").querySelectorAll("input"))
    box.checked = Array.isArray(strata) && strata.includes(box.value);
  show();
  plan?.show(state.people_plan);
  solving.replaced();
}

function numberChanged(id, text, event) {
  const field = byId(id);
  const valid = /^\d{1,4}$/.test(text.trim()) && Number(text) <= MOST[id];
  set(field, "aria-invalid", !valid);
  if (!valid) return;
  draft.protection[KEYS[id]] = Number(text);
  byId("avoid").disabled = draft.protection.fake_values === 0;
  if (draft.protection.fake_values === 0) draft.protection.avoid_ruled_out = byId("avoid").checked = false;
  mark("protection", draft.protection.known_records || draft.protection.fake_values ? "set" : "optional");
  changed(event);
}

/** The draft has changed: a plan is about an earlier one, and everything else is asked for. */
function changed(event) {
  plan?.changed();
  solving.changed(event);
}

function strataChanged(event) {
  const kind = document.querySelector("input[name=strata]:checked").value;
  byId("strata-names").hidden = kind !== "columns";
  const most = byId("strata-most").value.trim();
  const names = [...byId("strata-names").querySelectorAll("input:checked")].map((box) => box.value);
  const fits = kind !== "number" || /^[1-9]\d{0,5}$/.test(most);
  set(byId("strata-most"), "aria-invalid", !fits);
  if (!fits || (kind === "columns" && names.length === 0)) return;
  draft.protection.strata = kind === "number" ? Number(most) : kind === "columns" ? names : kind;
  changed(event);
  if (kind === "none") fill(byId("strata-result"));
}

function listen() {
  for (const id of Object.keys(MOST))
    byId(id).addEventListener("input", (event) => numberChanged(id, event.target.value, event));
  for (const button of document.querySelectorAll("[data-by]")) {
    button.addEventListener("click", (event) => {
      const field = byId(button.dataset.for);
      field.value = String(
        Math.min(MOST[field.id], Math.max(0, (Number(field.value) || 0) + Number(button.dataset.by))),
      );
      numberChanged(field.id, field.value, event);
    });
  }
  byId("avoid").addEventListener("change", (event) => {
    draft.protection.avoid_ruled_out = event.target.checked;
    solving.changed(event);
  });
  const chosen = Array.isArray(draft.protection.strata) ? draft.protection.strata : [];
  fill(
    byId("strata-names"),
    initial.roles.quasi_identifiers.map((name) =>
      el(
        "label",
        { class: "check" },
        el("input", {
          type: "checkbox",
          value: name,
          checked: chosen.includes(name),
          "data-test": "strata-column",
          "data-column": name,
        }),
        el("span", {}, named(name, 40)),
      ),
    ),
  );
  byId("strata").addEventListener("change", strataChanged);
  byId("strata-most").addEventListener("input", (event) => {
    document.querySelector("input[name=strata][value=number]").checked = true;
    strataChanged(event);
  });
  byId("strata-price").addEventListener("click", priceStrata);
}

function answered(got, overtaken) {
  clear();
  if (byPeople) return showProblem(got.problem, take, "");
  showStanding(got, take);
  markLimits(got);
  figures.classList.toggle("stale", !got.setting);
  figures.inert = !got.setting;
  if (!got.setting) return;
  set(setting, "data-setting", settingText(got.setting));
  sizes.show(got.setting);
  say(shown, sentence(got.exposure.sentence));
  shown.classList.toggle("bad-word", got.exposure.outright > 0);
  say(counts, sentence(got.count_error.sentence));
  const before = got.price?.mse ?? got.mse;
  const most = Math.max(got.mse, before, 1e-9);
  draw(bars.with, got.mse, most);
  draw(bars.without, before, most);
  const text = priceWords(got);
  say(words, text);
  if (got.exact && !overtaken) announce(text);
}

function draw(bar, mse, most) {
  bar.meter.style.width = `${(100 * mse) / most}%`;
  say(bar.number, `MSE ${figure(mse)}`);
}

function priceWords(got) {
  const { known_records: known, fake_values: fakes } = draft.protection;
  if (!known && !fakes) return "No known records and no fake values: nothing to pay.";
  const what = listed(
    [known ? plural(known, "known record") : null, fakes ? plural(fakes, "fake value") : null].filter(Boolean),
  ).join("");
  if (!got.price) return `${sentence(what)} The price is not known yet.`;
  if (got.price.ratio === null) return `With ${what}, the loss is ${figure(got.loss)}; without, it is 0.`;
  const free = got.price.ratio < 1.0005;
  return free
    ? `With ${what}, the loss is the same: ${figure(got.loss)}. Protection is free here.`
    : `With ${what}, the loss is ${probability(got.price.ratio)} times as large: ${figure(got.loss)} instead of ${figure(got.price.loss)}.`;
}

function take(offer, event) {
  takeOffer(draft, offer);
  solving.changed(event);
}

async function priceStrata() {
  try {
    const { task } = await post("/api/strata-price", {});
    await showStrata(task);
  } catch (error) {
    complain(error);
  }
}

async function resume() {
  const task = runningTask(initial.tasks, ["strata-price"]);
  if (task) await showStrata(task.id).catch(complain);
}

async function showStrata(id) {
  byId("strata-price").disabled = true;
  fill(byId("strata-result"));
  try {
    const result = await follow(id, byId("strata-progress"), "Pricing strata");
    if (result) strataResult(result);
  } finally {
    byId("strata-price").disabled = false;
  }
}

function strataResult(price) {
  const { strata, columns, mse, mse_of_one: one, loss, loss_of_one: lossOfOne, sentences, stale } = price;
  byId("strata-result").classList.toggle("stale", stale === true);
  const lines = { strata: methodLine("own"), one: methodLine("") };
  const most = Math.max(mse, one, 1e-9);
  draw(lines.strata, mse, most);
  draw(lines.one, one, most);
  const ratio = lossOfOne > 0 ? loss / lossOfOne : null;
  fill(
    byId("strata-result"),
    stale ? el("p", { class: "hint" }, "For what was set before. The new price is on its way.") : null,
    el(
      "div",
      { class: "methods" },
      el("span", {}, "One stratum"),
      ...lines.one.cells,
      el("span", {}, plural(strata, "stratum", "strata")),
      ...lines.strata.cells,
    ),
    el(
      "p",
      {},
      strata <= 1
        ? "The table stays in one stratum, so strata cost nothing and gain nothing."
        : [
            `${plural(strata, "stratum", "strata")}, cut by `,
            listed((columns ?? []).map((name) => named(name, 30))),
            `. The loss is ${figure(loss)} instead of ${figure(lossOfOne)}${ratio === null ? "" : `, ${probability(ratio)} times as large`}.`,
          ],
    ),
    strata > 1 ? el("p", {}, sentence(price.exposure.sentence), " ", sentence(price.count_error.sentence)) : null,
    strata > 1
      ? el(
          "p",
          { class: "hint" },
          "Loss does not measure that people who share a bucket are now more alike. Where quasi-identifiers and sensitive values are related, counts get better anyway, and there is less to learn across buckets. With tight limits there may be more to learn: an audit shows it.",
        )
      : null,
    (sentences ?? []).filter((text) => !OWN_WORDS.test(text)).map((text) => el("p", { class: "hint" }, sentence(text))),
  );
}
