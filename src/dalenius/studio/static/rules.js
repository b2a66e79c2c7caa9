// What a rule gives each value, for drawing at once. The server's answer, which is exact, comes after it.

import { read, readLimit } from "./ratio.js";

const ROOM = 1 - 1e-12; // floating point must not mark a limit that is exactly the frequency

/** What is wrong with the numbers of the rule in use, by the name of the number; empty if nothing is. */
export function faults(limits) {
  const wrong = {};
  const number = (name, fits, words) => {
    const got = read(limits[name] ?? "");
    if (got === null || !fits(got)) wrong[name] = words;
  };
  if (limits.rule === "theta") {
    number("theta", () => true, "Theta is a number such as 8.");
    number("base", () => true, "Base is a number such as 0.02.");
  }
  if (limits.rule === "uniform") number("uniform", (x) => x > 0 && x <= 1, "A limit is above 0 and at most 1.");
  if (limits.rule === "l_diversity")
    number("l_diversity", (x) => Number.isInteger(x) && x >= 1, "l is a whole number, at least 1.");
  if (limits.rule === "beta") number("beta", () => true, "Beta is a number such as 3.");
  return wrong;
}

/** What the rule alone says for a value of this frequency; NaN where there is no rule. */
function ruleLimit(limits) {
  const numbers = Object.fromEntries(
    ["theta", "base", "uniform", "l_diversity", "beta"].map((name) => [name, read(limits[name] ?? "") ?? NaN]),
  );
  switch (limits.rule) {
    case "theta":
      return (share) => Math.min(1, numbers.theta * share + numbers.base);
    case "uniform":
      return () => numbers.uniform;
    case "l_diversity":
      return () => 1 / numbers.l_diversity;
    case "beta":
      return (share) => Math.min(1, (1 + numbers.beta) * share);
    default:
      return () => NaN;
  }
}

/** The limit of every value, in the order of the counts. */
export function allLimits(limits, table) {
  const rule = ruleLimit(limits);
  return Float64Array.from(table.values, (value, at) => {
    const own = Object.hasOwn(limits.values, value) ? limits.values[value] : null;
    return own !== null ? (readLimit(own) ?? NaN) : rule(table.counts[at] / table.total);
  });
}

/** Whether one bucket of everybody would keep the limit, against somebody who knows so many records. */
export const canBeKept = (limit, count, total, known) => limit * (total - known) >= count * ROOM;
