// Answers to a count query: one answer with its picture, or a table of groups.

import { count, el, figure, named, plural, seconds, sentence, svg } from "./dom.js";

/** The picture of one answer: certain bounds, the 95 % interval, that at random, the estimate, the truth if known. */
function rangePicture({ estimate, bounds, interval, at_random: atRandom, truth }) {
  const [low, high] = axisEnds(bounds, truth);
  const x = (value) => `${(100 * (value - low)) / (high - low)}%`;
  const span = (from, to) => `${(100 * Math.max(to - from, 0)) / (high - low)}%`;
  const label = (value, row, words, anchor) => svg("text", { x: x(value), y: row, "text-anchor": anchor }, words);
  return el(
    "figure",
    { class: "range-figure", role: "img", "aria-label": rangeWords({ estimate, bounds, interval, truth }) },
    svg(
      "svg",
      { class: "range-picture", "aria-hidden": "true" },
      svg("rect", { class: "certain", x: x(bounds[0]), y: 26, width: span(...bounds), height: 22, rx: 2 }),
      svg("rect", { class: "interval", x: x(interval[0]), y: 26, width: span(...interval), height: 22 }),
      atRandom
        ? svg("rect", {
            class: "at-random",
            x: x(atRandom.interval[0]),
            y: 22,
            width: span(...atRandom.interval),
            height: 30,
          })
        : null,
      svg("line", { class: "estimate", x1: x(estimate), x2: x(estimate), y1: 20, y2: 54 }),
      truth === null || truth === undefined
        ? null
        : svg(
            "svg",
            { x: x(truth), y: 37, overflow: "visible" },
            svg("path", { class: "truth", d: "M0,-7 L7,0 L0,7 L-7,0 Z" }),
          ),
      svg("line", { class: "axis-line", x1: "0%", x2: "100%", y1: 62, y2: 62 }),
      label(bounds[0], 14, count(bounds[0]), anchor(bounds[0], low, high)),
      bounds[1] > bounds[0] ? label(bounds[1], 14, count(bounds[1]), anchor(bounds[1], low, high)) : null,
      label(low, 80, count(low), "start"),
      label(high, 80, count(high), "end"),
    ),
    el(
      "p",
      { class: "range-legend", "aria-hidden": "true" },
      legendKey("certain", "certain bounds"),
      legendKey("interval", "95 % interval"),
      legendKey("estimate", "estimate"),
      atRandom ? legendKey("at-random", "interval at random") : null,
      truth === null || truth === undefined ? null : legendKey("truth", "true count"),
    ),
  );
}

/** The same in a table cell, on an axis that all rows share. */
function miniRange({ estimate, bounds, interval, truth }, most) {
  const x = (value) => `${(100 * value) / Math.max(most, 1)}%`;
  return svg(
    "svg",
    { class: "mini-range range-picture", "aria-hidden": "true" },
    svg("rect", { class: "certain", x: x(bounds[0]), y: 4, width: x(bounds[1] - bounds[0]), height: 8 }),
    svg("rect", { class: "interval", x: x(interval[0]), y: 4, width: x(interval[1] - interval[0]), height: 8 }),
    svg("line", { class: "estimate", x1: x(estimate), x2: x(estimate), y1: 1, y2: 15 }),
    truth === null || truth === undefined
      ? null
      : svg(
          "svg",
          { x: x(truth), y: 8, overflow: "visible" },
          svg("path", { class: "truth", d: "M0,-4 L4,0 L0,4 L-4,0 Z" }),
        ),
  );
}

const legendKey = (kind, title) => el("span", {}, el("i", { class: kind }), title);

function axisEnds(bounds, truth) {
  const low = Math.min(bounds[0], truth ?? bounds[0]);
  const high = Math.max(bounds[1], truth ?? bounds[1]);
  const room = Math.max((high - low) * 0.08, 1);
  return [low - room < high * 0.25 ? 0 : Math.floor(low - room), Math.ceil(high + room)];
}

function anchor(value, low, high) {
  const place = (value - low) / (high - low);
  return place < 0.06 ? "start" : place > 0.94 ? "end" : "middle";
}

function rangeWords({ estimate, bounds, interval, truth }) {
  const truthPart = truth === null || truth === undefined ? "" : `, true count ${count(truth)}`;
  return `Estimate ${count(estimate)}, 95 % interval ${count(interval[0])} to ${count(interval[1])}, certainly ${count(bounds[0])} to ${count(bounds[1])}${truthPart}`;
}

/** An estimate: whole numbers from 1,000 on, one digit below. */
export const estimated = (number) =>
  Math.abs(number) >= 1000 ? count(number) : new Intl.NumberFormat("en", { maximumFractionDigits: 1 }).format(number);

/** "104 to 132". */
export const fromTo = ([low, high]) => (low === high ? count(low) : `${count(low)} to ${count(high)}`);

const known = (value) => value !== null && value !== undefined;

/** What an interval is worth: "held 94 % of 200 simulated truths". */
const held = (coverage) =>
  known(coverage)
    ? `held ${share(coverage)} of ${count(coverage.queries)} simulated truths`
    : "how often it holds is unknown";

export const share = (coverage) => (known(coverage) ? `${Math.round(100 * coverage.share)} %` : "–");

/** Elements for an answer to a query without groups. */
export function oneAnswer(answer) {
  const { estimate, bounds, interval, standard_error: error, coverage, exact, tight, note, truth } = answer;
  const atRandom = answer.at_random;
  const part = (title, value, test, main) =>
    el("div", { class: main ? "main" : null }, el("dt", {}, title), el("dd", { "data-test": test }, value));
  return [
    el(
      "dl",
      { class: "answer-figures" },
      part(`${exact ? "Certain" : "Estimate"}${answer.counted ? `, ${answer.counted}` : ""}`, estimated(estimate), "estimate", true),
      part("95 % interval", fromTo(interval), "interval"),
      exact ? null : part("This interval", held(coverage), "coverage"),
      part("Certain bounds", fromTo(bounds), "bounds"),
      part("Standard error", figure(error), "standard-error"),
      known(truth) ? part("True count", count(truth), "truth") : null,
    ),
    rangePicture(answer),
    known(truth) ? el("p", {}, truthWords(answer)) : null,
    known(atRandom)
      ? el(
          "p",
          { class: "hint", "data-test": "at-random" },
          `From single buckets, matched at random: ${estimated(atRandom.estimate)} (${fromTo(atRandom.interval)}; ${held(atRandom.coverage)}).`,
        )
      : null,
    note ? el("p", { class: "hint" }, sentence(note)) : null,
    tight === false ? el("p", { class: "hint" }, "Tighter bounds may hold as well.") : null,
    answer.dropped
      ? el("p", { class: "hint" }, `${plural(answer.dropped, "row")} of the table were left out of the release, and are not counted.`)
      : null,
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
  const atRandom = answers.some((answer) => known(answer.at_random));
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
            head("Held"),
            head("Certain bounds"),
            atRandom ? head("At random") : null,
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
              el("td", { class: "num", "data-test": "coverage" }, share(answer.coverage)),
              el("td", { class: "num" }, fromTo(answer.bounds)),
              atRandom
                ? el("td", { class: "num" }, known(answer.at_random) ? estimated(answer.at_random.estimate) : "–")
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

export const groupValue = (value) =>
  value === null || value === undefined ? el("span", { class: "muted" }, "(null)") : named(String(value), 60);

/** The assumption behind the answer, and how long it took. */
export const assumption = ({ assumption: text, seconds: time }) =>
  el(
    "p",
    { class: "assumption" },
    text ? `${sentence(text)} ` : "",
    time === null || time === undefined
      ? ""
      : `Answered in ${time < 1 ? `${Math.max(1, Math.round(1000 * time))} ms` : seconds(time)}.`,
  );
