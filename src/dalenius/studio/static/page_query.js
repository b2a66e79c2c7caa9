// Page 5: count from a release, by picking values or by writing the condition.

import { assumption, estimated, fromTo, groupAnswers, oneAnswer } from "./answers.js";
import { countFrom } from "./counting.js";
import { Conditions, expression } from "./conditions.js";
import { byId, count, el, fill, named, plural, say, sentence } from "./dom.js";
import { get } from "./server.js";
import { announce, clear, complain } from "./shell.js";

let release = null;
let published = null; // the columns of the release
let conditions = null;
let byHand = byId("expression").value !== ""; // somebody wrote the expression, perhaps before this script was loaded

byId("release").addEventListener("change", open);
byId("expression").addEventListener("input", () => setByHand(true));
byId("expression").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !byId("count").disabled) ask();
});
byId("from-conditions").addEventListener("click", () => {
  setByHand(false);
  write();
});
byId("count").addEventListener("click", () => ask());
open();

/** Read the columns of the chosen release: from the release, never from the table. */
async function open() {
  clear();
  byId("count").disabled = true;
  const id = (release = byId("release").value);
  try {
    const got = await get(`/api/releases/${encodeURIComponent(id)}/columns`);
    if (id !== release) return; // another release was chosen meanwhile
    published = got;
  } catch (error) {
    return complain(error);
  }
  const sensitive = [published.sensitive, ...published.others];
  const all = [...published.columns, ...sensitive];
  conditions = new Conditions(all, sensitive.map(({ name }) => name), () => {
    if (!byHand) write();
  });
  fill(
    byId("group-by"),
    all.map((column) =>
      el(
        "label",
        { class: "check" },
        el("input", {
          type: "checkbox",
          value: column.name,
          "data-test": "group-column",
          "data-column": column.name,
          change: showGroups,
        }),
        el("span", {}, named(column.name, 40)),
      ),
    ),
  );
  byId("truth-choice").hidden = !published.truth;
  byId("unit-choice").hidden = byId("unit-hint").hidden = !published.several_rows;
  const { people, rows } = published;
  say(byId("unit-hint"), `The release has ${plural(people, "person", "people")} with ${plural(rows, "row")}. A person counts if one of their rows meets what is said of quasi-identifiers, and one of their values, in any row, what is said of each sensitive column.`);
  setByHand(byHand);
  if (!byHand) write();
  showGroups();
  byId("count").disabled = false;
}

const groups = () => [...byId("group-by").querySelectorAll("input:checked")].map((box) => box.value);

function showGroups() {
  const chosen = groups();
  say(byId("group-chosen"), chosen.length ? `by ${chosen.join(", ")}` : "");
}

function write() {
  byId("expression").value = expression(conditions.chosen);
}

function setByHand(now) {
  byHand = now;
  byId("from-conditions").hidden = !now;
  say(byId("expression-state"), now ? "written by hand" : "made from the conditions above");
}

async function ask(question = null) {
  const query = question ?? {
    expression: byId("expression").value.trim(),
    group_by: groups(),
    learn: byId("learn").checked,
    truth: published.truth && byId("truth").checked,
    unit: published.several_rows ? document.querySelector("input[name=unit]:checked").value : "people",
  };
  byId("count").disabled = true;
  fill(byId("query-problem"));
  try {
    const got = await countFrom(release, { ...query, expression: query.expression || "TRUE" });
    if (got === null) return fill(byId("query-problem"), el("p", { class: "muted" }, "The count was cancelled."));
    show(query, got);
    remember(query, got);
  } catch (error) {
    if (error.status === 0) return complain(error);
    fill(
      byId("query-problem"),
      el(
        "div",
        { class: "notice bad", "data-test": "query-error" },
        el("p", {}, el("strong", {}, sentence(error.message))),
        error.hint ? el("p", {}, error.hint) : null,
      ),
    );
  } finally {
    byId("count").disabled = false;
  }
}

function show(query, got) {
  const grouped = query.group_by.length > 0;
  const [first] = got.answers;
  document.querySelector(".query-layout").classList.toggle("grouped", grouped);
  fill(
    byId("query-answer"),
    el("p", { class: "muted asked-code", title: query.expression }, el("code", {}, query.expression || "everybody")),
    grouped ? groupAnswers(got.answers, query.group_by) : oneAnswer(first),
    got.truth_note ? el("p", { class: "hint", "data-test": "truth-note" }, got.truth_note) : null,
    assumption(got),
  );
  if (!grouped) announce(`Estimate ${estimated(first.estimate)}, 95 percent interval ${fromTo(first.interval)}`);
}

function remember(query, got) {
  const grouped = query.group_by.length > 0;
  const [first] = got.answers;
  byId("history-panel").hidden = false;
  const cell = (text) => el("td", { class: "num" }, text);
  byId("history").prepend(
    el(
      "tr",
      { "data-test": "asked" },
      el(
        "td",
        { class: "mono" },
        el(
          "div",
          { title: query.expression },
          query.expression || "everybody",
          published.several_rows ? el("span", { class: "muted" }, `, ${query.unit}`) : null,
          grouped ? el("span", { class: "muted" }, ` by ${query.group_by.join(", ")}`) : null,
        ),
      ),
      ...(grouped
        ? [cell(`${count(got.answers.length)} groups`), cell(""), cell("")]
        : [
            cell(estimated(first.estimate)),
            cell(fromTo(first.interval)),
            cell(first.truth === null || first.truth === undefined ? "–" : count(first.truth)),
          ]),
      el("td", { class: "num" }, el("button", { type: "button", class: "small", click: () => again(query) }, "Again")),
    ),
  );
}

function again(query) {
  byId("expression").value = query.expression;
  setByHand(true);
  ask(query);
}
