// Figures for analysts: a bar for each group of a release, with its interval, and the same as a CSV file.

import { assumption, estimated, fromTo, groupValue, share } from "./answers.js";
import { countFrom } from "./counting.js";
import { offerLines } from "./csv.js";
import { byId, count, el, fill, named, nameText, plural, sentence, svg } from "./dom.js";
import { get } from "./server.js";
import { announce, clear, complain } from "./shell.js";

const MOST_BARS = 200;
let published = null; // the columns of the release
let choices = []; // the values that can be counted, of all sensitive columns
let latest = 0;

byId("release").addEventListener("change", open);
byId("figures-form").addEventListener("submit", (event) => {
  event.preventDefault();
  draw();
});
for (const id of ["by", "of", "learn", "unit"]) byId(id).addEventListener("change", draw);
open();

async function open() {
  clear();
  byId("draw").disabled = true;
  const id = byId("release").value;
  try {
    published = await get(`/api/releases/${encodeURIComponent(id)}/columns`);
  } catch (error) {
    return complain(error);
  }
  const { columns } = published;
  const sensitive = [published.sensitive, ...published.others];
  byId("unit-choice").hidden = !published.several_rows;
  choices = sensitive.flatMap((column) => (column.values ?? []).map((value, at) => ({ column, value, literal: column.literals[at] })));
  const option = (value, title) => el("option", { value }, title);
  fill(
    byId("by"),
    [...sensitive, ...columns].map((column, at) => option(at, nameText(column.name))),
  );
  fill(
    byId("of"),
    option("", "everybody"),
    choices.map(({ column, value }, at) => option(at, `${nameText(column.name)}: ${nameText(value)}`)),
  );
  byId("draw").disabled = false;
  await draw();
}

/** What to count, as SQL: names and values come quoted from the server. */
function condition() {
  const chosen = byId("of").value === "" ? null : choices[Number(byId("of").value)];
  const value = chosen === null ? "" : `${chosen.column.sql} = ${chosen.literal}`;
  const where = byId("where").value.trim();
  return [value, where ? `(${where})` : ""].filter(Boolean).join(" AND ") || "TRUE";
}

async function draw() {
  if (published === null) return;
  const by = [published.sensitive, ...published.others, ...published.columns][Number(byId("by").value)];
  const asked = (latest += 1);
  fill(byId("query-problem"));
  try {
    const got = await countFrom(byId("release").value, {
      expression: condition(),
      group_by: [by.name],
      learn: byId("learn").checked,
      unit: published.several_rows ? byId("unit").value : "people",
    });
    if (got === null || asked !== latest) return; // cancelled, or something else was asked meanwhile
    const figures = got.answers.map((answer) => figureOf(answer, by.name));
    if (by.kind !== "number") figures.sort((a, b) => b.estimate - a.estimate);
    fill(byId("bars"), bars(figures, by), assumption(got));
    offer(figures, by);
    announce(`${plural(figures.length, "group")} drawn.`);
  } catch (error) {
    if (asked !== latest) return;
    if (error.status === 0) return complain(error);
    const words = [el("p", {}, el("strong", {}, sentence(error.message))), error.hint ? el("p", {}, error.hint) : null];
    fill(byId("query-problem"), el("div", { class: "notice bad", "data-test": "query-error" }, words));
  }
}

/** The figures of a group. */
function figureOf(answer, column) {
  const { estimate, interval, coverage, bounds } = answer;
  return { group: answer.group[column], estimate, interval, coverage, bounds };
}

const isCertain = ({ bounds: [low, high] }) => low === high;

/** A table whose pictures share one axis: it reads well without them. */
function bars(figures, by) {
  const most = Math.max(...figures.map(({ estimate, interval }) => Math.max(estimate, interval[1])), 1);
  const head = (title) => el("th", { scope: "col", class: "num" }, title);
  return [
    el(
      "table",
      { class: "bars" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("th", { scope: "col" }, named(by.name, 40)),
          el("th", { scope: "col", class: "picture" }, el("span", { class: "sr-only" }, "Picture")),
          head("Estimate"),
          head("95 % interval"),
          head("Held"),
        ),
      ),
      el(
        "tbody",
        {},
        figures.slice(0, MOST_BARS).map((figure) =>
          el(
            "tr",
            { "data-test": "bar" },
            el("th", { scope: "row" }, groupValue(figure.group)),
            el("td", { class: "picture" }, picture(figure, most)),
            el("td", { class: "num", "data-test": "estimate" }, estimated(figure.estimate)),
            el("td", { class: "num" }, isCertain(figure) ? "certain" : fromTo(figure.interval)),
            el("td", { class: "num", "data-test": "coverage" }, isCertain(figure) ? "" : share(figure.coverage)),
          ),
        ),
      ),
    ),
    figures.length > MOST_BARS
      ? el(
          "p",
          { class: "hint" },
          `${count(MOST_BARS)} of ${plural(figures.length, "group")} are shown. The CSV file has all.`,
        )
      : null,
  ];
}

function picture({ estimate, interval: [low, high] }, most) {
  const x = (value) => `${(100 * Math.max(0, value)) / most}%`;
  return svg(
    "svg",
    { class: "bar-picture", "aria-hidden": "true" },
    svg("rect", { class: "bar-estimate", x: 0, y: 3, width: x(estimate), height: 14 }),
    high > low ? [line(low, high, 10, 10), line(low, low, 5, 15), line(high, high, 5, 15)] : null,
  );

  function line(from, to, y1, y2) {
    return svg("line", { class: "bar-interval", x1: x(from), x2: x(to), y1, y2 });
  }
}

/** Offer the figures that are shown as a CSV file. */
function offer(figures, by) {
  const rows = figures.map(({ group, estimate, interval, coverage, bounds }) => [
    group ?? "",
    estimate,
    ...interval,
    coverage?.share ?? "",
    ...bounds,
  ]);
  const head = [by.name, "estimate", "interval_low", "interval_high", "coverage", "certain_low", "certain_high"];
  offerLines(byId("download"), [head, ...rows]);
}
