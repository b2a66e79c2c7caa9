// What a count query gave: one answer with its picture, or a table of groups.

import { miniRange, rangePicture } from "./chart_range.js";
import { el, named } from "./dom.js";
import { count, figure, plural, seconds, sentence } from "./format.js";

/** An estimate: whole numbers from 1,000 on, one digit below. */
export const estimated = (number) =>
  Math.abs(number) >= 1000 ? count(number) : new Intl.NumberFormat("en", { maximumFractionDigits: 1 }).format(number);

/** "104 to 132". */
export const fromTo = ([low, high]) => (low === high ? count(low) : `${count(low)} to ${count(high)}`);

const known = (value) => value !== null && value !== undefined;

/** Elements for an answer to a query without groups. */
export function oneAnswer(answer) {
  const { estimate, bounds, interval, standard_error: error, exact, tight, learned, note, truth } = answer;
  const part = (title, value, test, main) =>
    el("div", { class: main ? "main" : null }, el("dt", {}, title), el("dd", { "data-test": test }, value));
  return [
    el(
      "dl",
      { class: "answer-figures" },
      part(exact ? "Certain" : "Estimate", estimated(estimate), "estimate", true),
      part("95 % interval", fromTo(interval), "interval"),
      part("Certain bounds", fromTo(bounds), "bounds"),
      part("Standard error", figure(error), "standard-error"),
      known(learned)
        ? part("Learned", `${estimated(learned.estimate)} (${fromTo(learned.interval)})`, "learned")
        : null,
      known(truth) ? part("True count", count(truth), "truth") : null,
    ),
    rangePicture(answer),
    known(truth) ? el("p", {}, truthWords(answer)) : null,
    note ? el("p", { class: "hint" }, sentence(note)) : null,
    tight === false ? el("p", { class: "hint" }, "Closer bounds may hold too.") : null,
  ];
}

function truthWords({ estimate, interval, truth }) {
  const inside = truth >= interval[0] && truth <= interval[1];
  const off =
    truth > 0
      ? `The estimate is ${new Intl.NumberFormat("en", { maximumSignificantDigits: 2 }).format((100 * Math.abs(estimate - truth)) / truth)} % off. `
      : "";
  return `${off}The true count is ${inside ? "within" : "outside"} the 95 % interval.`;
}

/** A table of the answers by group. */
export function groupAnswers(answers, columns) {
  const most = Math.max(...answers.map((answer) => Math.max(answer.bounds[1], answer.truth ?? 0)), 1);
  const truths = answers.some((answer) => known(answer.truth));
  const learned = answers.some((answer) => known(answer.learned));
  const head = (title, numeric = true) => el("th", { scope: "col", class: numeric ? "num" : null }, title);
  return [
    el("p", { class: "hint" }, plural(answers.length, "group")),
    el(
      "div",
      { class: "groups", tabindex: "0", role: "region", "aria-label": "Answers by group" },
      el(
        "table",
        { "data-test": "groups" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            columns.map((column) => el("th", { scope: "col" }, named(column, 40))),
            head("Estimate"),
            head("95 % interval"),
            head("Certain bounds"),
            learned ? head("Learned") : null,
            truths ? head("True count") : null,
            el("th", { scope: "col" }, el("span", { class: "sr-only" }, "Picture")),
          ),
        ),
        el(
          "tbody",
          {},
          answers.slice(0, 1000).map((answer) =>
            el(
              "tr",
              { "data-test": "group" },
              columns.map((column) => el("td", {}, groupValue(answer.group?.[column]))),
              el("td", { class: "num", "data-test": "estimate" }, estimated(answer.estimate)),
              el("td", { class: "num", "data-test": "interval" }, fromTo(answer.interval)),
              el("td", { class: "num" }, fromTo(answer.bounds)),
              learned
                ? el("td", { class: "num" }, known(answer.learned) ? estimated(answer.learned.estimate) : "–")
                : null,
              truths
                ? el("td", { class: "num", "data-test": "truth" }, known(answer.truth) ? count(answer.truth) : "–")
                : null,
              el("td", {}, miniRange(answer, most)),
            ),
          ),
        ),
      ),
    ),
    answers.length > 1000 ? el("p", { class: "hint" }, "The first 1,000 groups are shown.") : null,
  ];
}

const groupValue = (value) =>
  value === null || value === undefined ? el("span", { class: "muted" }, "(null)") : named(String(value), 60);

/** What the answer rests on, and how long it took. */
export const assumption = ({ assumption: text, seconds: took }) =>
  el(
    "p",
    { class: "assumption" },
    text ? `${sentence(text)} ` : "",
    took === null || took === undefined
      ? ""
      : `Answered in ${took < 1 ? `${Math.max(1, Math.round(1000 * took))} ms` : seconds(took)}.`,
  );
