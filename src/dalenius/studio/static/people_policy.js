// What will be published and promised where people count and not rows, in words.

import { capital, count, el, fill, listed, named, plural, sentence } from "./dom.js";
import { planWords } from "./people_plan.js";
import { policyWords } from "./rules.js";
import { chosenTable } from "./server.js";

/** Show it. `counted` says how many people have how many rows, once that is known; `left` are columns without a role. */
export function showPeoplePolicy(host, state, left, strataWords) {
  const { roles, protection, solve, of_sets: sets, people_plan: plan, counted } = state;
  const table = chosenTable(state);
  const note = (words) => el("span", { class: "muted" }, words);
  const chips = (names) => names.map((name) => el("span", { class: "column-chip" }, named(name, 60)));
  const line = (title, ...words) => el("div", {}, el("dt", {}, title), el("dd", {}, ...words));
  const hidden = [...(roles.person === null ? [] : [roles.person]), ...roles.identifiers, ...left];
  const people = counted?.total ?? null;
  fill(
    host,
    el(
      "dl",
      { class: "policy-list" },
      line("Exposure", plan !== null && !plan.stale ? sentence(plan.exposure.sentence) : "It is known once the plan is worked out, or the release made."),
      line("Table", named(table?.name ?? "", 60), ". ", people === null ? "…" : peopleWords(counted, roles)),
      line("Published unchanged", chips(roles.quasi_identifiers)),
      line(
        "Sensitive",
        sets.map((one) => [
          chips([one.name]),
          one.columns.length > 1 ? note([" in any of ", listed(one.columns.map((name) => named(name, 30))), " "]) : " ",
        ]),
        note("each in a table of its own, linked only by bucket"),
      ),
      line("Not published", hidden.length === 0 ? "everything is published" : chips(hidden)),
      ...sets.map((one) =>
        line(sets.length > 1 ? ["Limits of ", named(one.name, 30)] : "Limits", `${capital(policyWords(one.limits))}.`, groupWords(one)),
      ),
      state.missing.length === 0 ? null : line("Missing", chips(state.missing), note(" count as one value")),
      line(
        "Buckets",
        planWords(plan) ?? "How many is known once the plan is worked out, or the release made.",
        roles.person === null ? "" : " People of a bucket have equally many rows.",
        solve.min_size === 1 ? " Buckets of one person are allowed." : ` None has fewer than ${plural(solve.min_size ?? 2, "person", "people")}.`,
        solve.max_size ? ` None has more than ${count(solve.max_size)}.` : "",
      ),
      line(
        "Known people",
        protection.known_records
          ? `The limits hold against somebody who knows all about up to ${plural(protection.known_records, "person", "people")} of a bucket.`
          : "None: the limits hold against somebody who knows nobody else of the bucket.",
      ),
      line("Strata", strataWords),
    ),
    plan?.in_the_clear && !plan.stale ? el("p", { class: "bad-word" }, sentence(plan.in_the_clear)) : null,
  );
}

function peopleWords({ total, rows }, { person, most_rows: most }) {
  if (person === null) return `${plural(total, "person", "people")}, each with one row.`;
  const kept = most === null ? "Every row is published once." : `Nobody keeps more than ${plural(most, "row")}; the others are left out at random.`;
  return [`${plural(total, "person", "people")} with ${plural(rows, "row")}, by `, named(person, 40), `. ${kept}`];
}

function groupWords({ limits: { grouping }, group_source: source }) {
  const words = { icd9: "by ICD-9", icd10: "by ICD-10", prefix: "by first characters" };
  if (grouping.source === "none") return "";
  return [" Groups ", words[grouping.source] ?? ["from ", named(source?.name ?? "", 40)], "."];
}
