// An answer as a picture: certain bounds, the 95 % interval in them, the estimate, and the truth where it is known.

import { el, svg } from "./dom.js";
import { count } from "./format.js";

/** The picture of one answer, on an axis from 0 to what is needed. */
export function rangePicture({ estimate, bounds, interval, learned, truth }) {
  const [low, high] = domain(bounds, truth);
  const x = (value) => `${(100 * (value - low)) / (high - low)}%`;
  const span = (from, to) => `${(100 * Math.max(to - from, 0)) / (high - low)}%`;
  const label = (value, row, words, anchor) => svg("text", { x: x(value), y: row, "text-anchor": anchor }, words);
  return el(
    "figure",
    { class: "range-figure", role: "img", "aria-label": words({ estimate, bounds, interval, truth }) },
    svg(
      "svg",
      { class: "range-picture", "aria-hidden": "true" },
      svg("rect", { class: "certain", x: x(bounds[0]), y: 26, width: span(...bounds), height: 22, rx: 2 }),
      svg("rect", { class: "interval", x: x(interval[0]), y: 26, width: span(...interval), height: 22 }),
      learned
        ? svg("rect", {
            class: "learned",
            x: x(learned.interval[0]),
            y: 22,
            width: span(...learned.interval),
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
      key("certain", "certain bounds"),
      key("interval", "95 % interval"),
      key("estimate", "estimate"),
      learned ? key("learned", "learned interval") : null,
      truth === null || truth === undefined ? null : key("truth", "true count"),
    ),
  );
}

/** The same in a table's cell, on an axis that all rows share. */
export function miniRange({ estimate, bounds, interval, truth }, most) {
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

const key = (kind, title) => el("span", {}, el("i", { class: kind }), title);

function domain(bounds, truth) {
  const low = Math.min(bounds[0], truth ?? bounds[0]);
  const high = Math.max(bounds[1], truth ?? bounds[1]);
  const room = Math.max((high - low) * 0.08, 1);
  return [low - room < high * 0.25 ? 0 : Math.floor(low - room), Math.ceil(high + room)];
}

function anchor(value, low, high) {
  const place = (value - low) / (high - low);
  return place < 0.06 ? "start" : place > 0.94 ? "end" : "middle";
}

function words({ estimate, bounds, interval, truth }) {
  const known = truth === null || truth === undefined ? "" : `, true count ${count(truth)}`;
  return `Estimate ${count(estimate)}, 95 % interval ${count(interval[0])} to ${count(interval[1])}, certainly ${count(bounds[0])} to ${count(bounds[1])}${known}`;
}
