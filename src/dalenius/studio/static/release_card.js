// A release: what it is, what can be done with it, the outcome of its checks, and the same from a terminal.

import { el, fill, named } from "./dom.js";
import { count, figure, percent, plural, sentence } from "./format.js";
import { post, text } from "./server.js";
import { announce, complain, follow } from "./shell.js";

/** A word as a shell reads it. */
const shellWord = (word) =>
  /^[\w@%+=:,./-]+$/.test(word) && !word.startsWith("-") ? word : `'${word.replaceAll("'", "'\\''")}'`;

/** A command with a button that copies it. */
function command(text) {
  const button = el("button", { type: "button", class: "small", click: copy }, "Copy");
  return el("div", { class: "command" }, el("code", { tabindex: "0", "data-test": "command" }, text), button);

  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it by hand";
    }
    setTimeout(() => {
      button.textContent = "Copy";
    }, 1500);
  }
}

const SIGNS = { passed: "✓", failed: "✗", "not-checked": "?" };
const ATTACKS = {
  corruption: "Knows records of the bucket",
  negative: "Rules values out",
  learning: "Learns across buckets",
  minimality: "Asks why strata were merged",
  order: "Reads the order of rows",
};

/** The checks of a verdict, as a list. */
function verdict(result) {
  return el(
    "div",
    { class: "outcome", "data-test": "verified", "data-verified": String(result.verified) },
    el(
      "h3",
      { class: result.verified ? "good-word" : "bad-word" },
      result.verified ? "✓ Verified: every check passed" : "✗ Not verified",
    ),
    el(
      "ul",
      { class: "checks" },
      (result.checks ?? []).map((check) =>
        el(
          "li",
          { "data-check": check.check, "data-outcome": check.outcome },
          el(
            "b",
            { class: check.outcome },
            SIGNS[check.outcome] ?? "?",
            el("span", { class: "sr-only" }, ` ${check.outcome}: `),
          ),
          el("b", {}, check.check),
          el(
            "span",
            {},
            check.message,
            (check.findings ?? []).map((finding) => el("span", { class: "hint" }, ` ${finding.message}`)),
          ),
        ),
      ),
    ),
    noteList(result.notes ?? []),
  );
}

const noteList = (notes) =>
  notes.length
    ? el(
        "ul",
        { class: "notes" },
        notes.map((note) => el("li", {}, sentence(note))),
      )
    : null;

/** The attacks of an audit, as a table. */
function audit(result) {
  const played = Object.keys(ATTACKS).filter((name) => result[name]);
  const broken = result.broken ?? [];
  return el(
    "div",
    { class: "outcome", "data-test": "audit-result", "data-broken": String(broken.length) },
    el(
      "h3",
      { class: broken.length ? "bad-word" : "good-word" },
      broken.length ? `✗ ${plural(broken.length, "broken promise")}` : "✓ These attacks broke no promise",
    ),
    broken.map((text) => el("p", { class: "bad-word" }, sentence(text))),
    el(
      "p",
      { class: "hint" },
      "Success is the share of people whose value the attacker guesses. Baseline is what the buckets alone give away. Control is the success of the same guesses on other people. Intervals are 95 %.",
    ),
    el(
      "div",
      { class: "scroll-x", tabindex: "0", role: "region", "aria-label": "Attacks" },
      el(
        "table",
        { class: "audit-table" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col" }, "Attacker"),
            ...["People", "Success", "Baseline", "Control", "Above a limit", "Claims", "Right", "Mean limit"].map(
              (head) => el("th", { scope: "col", class: "num" }, head),
            ),
          ),
        ),
        el(
          "tbody",
          {},
          played.map((name) => attackRow(name, result[name])),
        ),
      ),
    ),
    noteList([...(result.notes ?? []), ...played.flatMap((name) => result[name].notes ?? [])]),
  );
}

function attackRow(name, attack) {
  const number = (value) => el("td", { class: "num" }, value === null || value === undefined ? "–" : count(value));
  const right = attack.claims && attack.claims_right !== null ? attack.claims_right / attack.claims : null;
  return el(
    "tr",
    { "data-attack": name },
    el("th", { scope: "row" }, ATTACKS[name], el("span", { class: "hint" }, ` ${name}`)),
    number(attack.people),
    shareCell(attack.success, attack.success_interval),
    shareCell(attack.baseline, attack.baseline_interval),
    shareCell(attack.control, attack.control_interval),
    number(attack.people_above_limit),
    number(attack.claims),
    shareCell(right, attack.claims_right_interval),
    shareCell(attack.mean_limit, null),
  );
}

function shareCell(value, interval) {
  if (value === null || value === undefined) return el("td", { class: "num" }, "–");
  const fraction = (100 * value).toFixed(1);
  return el(
    "td",
    { class: "num" },
    `${fraction} %`,
    interval ? el("span", { class: "interval" }, `${percent1(interval[0])} to ${percent1(interval[1])}`) : null,
  );
}

const percent1 = (value) => (value === null ? percent(null) : `${(100 * value).toFixed(1)} %`);

const VERIFIED = new Map([
  [true, ["good", "✓ verified"]],
  [false, ["bad", "✗ NOT verified"]],
  [null, ["", "not verified yet"]],
]);

export class ReleaseCard {
  /** `notes` come from publishing; `changed()` is called when the server knows more about the release. */
  constructor(release, notes, changed) {
    this.id = release.id;
    this.changed = changed;
    this.acts = []; // buttons that start a task, one at a time
    this.address = `/releases/${encodeURIComponent(release.id)}`;
    this.badges = el("span", { class: "badges" });
    this.progress = el("div");
    this.outcome = { verify: el("div"), audit: el("div") };
    this.node = el(
      "article",
      { class: "panel release", "data-test": "release-card", "data-release": release.id },
      el("div", { class: "release-head" }, el("h3", {}, named(release.name, 60)), this.badges),
      facts(release),
      notes?.length
        ? el(
            "ul",
            { class: "notes" },
            notes.map((note) => el("li", {}, sentence(note))),
          )
        : null,
      this.#buttons(release),
      this.progress,
      this.outcome.verify,
      this.outcome.audit,
      this.#commands(release),
    );
    this.show(release);
  }

  /** Show what is known about it now. */
  show(release) {
    this.node.classList.toggle("verified", release.verified === true);
    if (release.verified === null) fill(this.outcome.verify); // the release changed: the last outcome is void
    if (!release.audited) fill(this.outcome.audit);
    const badge = (kind, text, test) => el("span", { class: `badge ${kind}`, "data-test": test }, text);
    fill(
      this.badges,
      badge(...VERIFIED.get(release.verified), "verified-badge"),
      release.audited ? badge("good", "✓ audited", "audited-badge") : null,
      release.saved ? badge("", "saved", "saved-badge") : null,
      release.seeded ? badge("warn", "⚠ seeded: not for publication", "seeded-badge") : null,
    );
  }

  /** Check the release by itself, or against its table. */
  verify(against) {
    return this.#run("verify", "Verifying", { against }, verdict);
  }

  async #run(what, title, body, view) {
    for (const button of this.acts) button.disabled = true;
    try {
      const { task } = await post(`/api/releases/${encodeURIComponent(this.id)}/${what}`, body);
      const result = await follow(task, this.progress, title);
      if (result === null) return;
      fill(this.outcome[what], view(result));
      announce(this.outcome[what].querySelector("h3").textContent);
      await this.changed();
    } catch (error) {
      complain(error);
    } finally {
      for (const button of this.acts) button.disabled = false;
    }
  }

  /** The job file begins with the command that publishes by it. It is read when somebody opens this. */
  #commands(release) {
    const folder = shellWord(release.name);
    const first = el("div");
    const details = el(
      "details",
      {
        class: "commands",
        toggle: async () => {
          if (!details.open || first.childElementCount > 0) return;
          const job = await text(`${this.address}/job.toml`).catch(() => "");
          if (commandOf(job)) fill(first, command(commandOf(job)));
        },
      },
      el("summary", { "data-test": "commands" }, "The same from the command line"),
      first,
      command(`dalenius verify ${folder} --job job.toml`),
      command(`dalenius report ${folder} --audit -o report.html`),
      el(
        "p",
        { class: "hint" },
        "You need the job file and the table. The buckets get the same sizes, but who shares a bucket is drawn again.",
      ),
    );
    return details;
  }

  #buttons(release) {
    const truth = release.with_truth;
    const act = (title, test, run) => {
      this.acts.push(el("button", { type: "button", "data-test": test, click: run }, title));
      return this.acts.at(-1);
    };
    const download = (file, title, test) =>
      el("a", { class: "button", href: `${this.address}/${file}`, download: true, "data-test": test }, title);
    const line = (title, ...buttons) =>
      el(
        "div",
        { class: "buttons", role: "group", "aria-label": title },
        el("span", { class: "group-name", "aria-hidden": "true" }, title),
        buttons,
      );
    return [
      line(
        "Check",
        act(truth ? "Verify against the table" : "Verify", "verify", () => this.verify(truth)),
        act(truth ? "Audit against the table" : "Audit", "audit", () =>
          this.#run("audit", "Auditing", { truth }, audit),
        ),
      ),
      line(
        "Use",
        el(
          "a",
          {
            class: "button",
            href: `${this.address}/report`,
            target: "_blank",
            rel: "noopener",
            "data-test": "report-link",
          },
          "Read the report",
          el("span", { "aria-hidden": "true" }, " ↗"),
          el("span", { class: "sr-only" }, " (new tab)"),
        ),
        el("a", { class: "button", href: "/query", "data-test": "to-query" }, "Count from it"),
      ),
      line(
        "Download",
        download("release.zip", "Release (zip)", "download-release"),
        download("job.toml", "Job file", "download-job"),
        download("report.html", "Report (HTML)", "download-report"),
        download("report.json", "Report (JSON)", "download-report-json"),
      ),
    ];
  }
}

function facts(release) {
  const fact = (title, value) => el("div", {}, el("dt", {}, title), el("dd", {}, value));
  return el(
    "dl",
    { class: "release-facts" },
    fact("records", count(release.rows)),
    fact("buckets", count(release.buckets)),
    fact("sensitive values", count(release.values)),
    fact("strata", count(release.strata)),
    fact("MSE", figure(release.mse)),
    release.known_records ? fact("known records", count(release.known_records)) : null,
    release.fake_values ? fact("fakes per bucket", count(release.fake_values)) : null,
  );
}

/** The command in the first line of a job file, or "" if it has none. */
function commandOf(job) {
  const [first] = job.split("\n", 1);
  return first.startsWith("# dalenius ") ? first.slice(2) : "";
}

/** A name that a release may have: letters, digits, dots, hyphens and underscores. */
export const plainName = (name) =>
  name
    .trim()
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^[-.]+|[-.]+$/g, "")
    .slice(0, 40) || "release";
