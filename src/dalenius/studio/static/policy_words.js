// The whole policy in words, and what a publisher should look at before publishing it.

import { policyWords } from "./compare.js";
import { el, fill, named } from "./dom.js";
import { capital, count, figure, listed, percent, plural, sentence } from "./format.js";
import { chosenTable } from "./state.js";

/** Say what will be published and promised. `answer` is the exploration of the draft, or null while it is not there. */
export function showPolicy(host, state, answer) {
  const { roles, protection, limits, solve } = state;
  const table = chosenTable(state);
  const left = leftOut(state);
  const chips = (names) => names.map((name) => el("span", { class: "column-chip" }, named(name, 60)));
  const line = (title, ...words) => el("div", {}, el("dt", {}, title), el("dd", {}, ...words));
  fill(
    host,
    el(
      "dl",
      { class: "policy-list" },
      line(
        "Table",
        named(table?.name ?? "", 60),
        table?.rows ? `, ${plural(table.rows, "record")}. Every record is published once.` : "",
      ),
      line("Published as it is", chips(roles.quasi_identifiers)),
      line(
        "Sensitive",
        chips([roles.sensitive]),
        el(
          "span",
          { class: "muted" },
          " in a table apart, linked by bucket alone",
          state.null_value ? `; empty cells count as “${state.null_value}”` : "",
        ),
      ),
      line(
        "Not published",
        roles.identifiers.length + left.length === 0 ? "nothing is held back" : chips([...roles.identifiers, ...left]),
      ),
      line("Limits", `${capital(policyWords(limits))}. `, limitsRange(answer)),
      line(
        "Buckets",
        buckets(answer),
        solve.min_size || solve.max_size
          ? ` Sizes ${solve.min_size ? `from ${solve.min_size}` : ""} ${solve.max_size ? `to ${solve.max_size}` : ""}.`
          : "",
      ),
      line(
        "Known records",
        protection.known_records
          ? `The limits hold against somebody who knows any ${plural(protection.known_records, "record")} of a bucket.`
          : "None: the limits hold against somebody who knows no other record of the bucket.",
      ),
      line(
        "Fake values",
        protection.fake_values
          ? `${capital(plural(protection.fake_values, "fake value"))} in every bucket${protection.avoid_ruled_out ? ", those that can be ruled out exchanged" : ""}.`
          : "None.",
      ),
      line("Strata", strataWords(protection.strata)),
    ),
  );
}

/** What deserves a second look, as notices. */
export function showWarnings(host, state, answer) {
  const table = chosenTable(state);
  const telling = (table?.columns ?? [])
    .filter((column) => column.suggested === "identifier" && state.roles.quasi_identifiers.includes(column.name))
    .map((column) => column.name);
  const left = leftOut(state);
  const warn = (kind, ...words) => el("div", { class: `notice ${kind}` }, el("p", {}, ...words));
  fill(
    host,
    answer?.problem
      ? warn(
          "bad",
          el("strong", {}, sentence(answer.problem.message)),
          " ",
          el("a", { href: "/limits" }, "To the limits"),
        )
      : null,
    telling.length
      ? warn(
          "warn",
          el("strong", {}, "This looks like it names people, and would be published: "),
          listed(telling.map((name) => named(name, 40))),
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
  const { sensitive, quasi_identifiers: known, identifiers } = state.roles;
  const used = new Set([sensitive, ...known, ...identifiers]);
  return (chosenTable(state)?.columns ?? []).map((column) => column.name).filter((name) => !used.has(name));
}

function limitsRange(answer) {
  if (!answer?.limits?.length) return "";
  const [least, most] = answer.limits.reduce(
    ([low, high], limit) => [Math.min(low, limit), Math.max(high, limit)],
    [1, 0],
  );
  return least === most
    ? `${plural(answer.limits.length, "value")}, each at most ${percent(least)}.`
    : `${plural(answer.limits.length, "value")}, between ${percent(least)} and ${percent(most)}.`;
}

function buckets(answer) {
  if (!answer) return "…";
  if (!answer.setting) return "These limits cannot be kept.";
  return `About ${plural(
    answer.setting.reduce((sum, group) => sum + group.buckets, 0),
    "bucket",
  )} of ${count(answer.setting[0].size)} to ${count(answer.setting.at(-1).size)} records in one stratum, MSE ${figure(answer.mse)}.`;
}

function strataWords(strata) {
  if (strata === "auto") return "Automatic.";
  if (strata === "none") return "None: one stratum.";
  if (Array.isArray(strata)) return el("span", {}, "By ", listed(strata.map((name) => named(name, 30))), ".");
  return `At most ${count(strata)}.`;
}
