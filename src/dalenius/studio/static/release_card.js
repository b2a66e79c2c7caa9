// A release: what it is, what can be done with it, the outcome of its checks, and the same from a terminal.

import { count, el, figure, fill, named } from "./dom.js";
import { audit, noteList, verdict } from "./outcomes.js";
import { get, post, text } from "./server.js";
import { announce, complain, follow, runningTask } from "./shell.js";

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

const VERIFIED = new Map([
  [true, ["good", "✓ verified"]],
  [false, ["bad", "✗ NOT verified"]],
  [null, ["", "not verified yet"]],
]);

const WORK = { verify: { title: "Verifying", view: verdict }, audit: { title: "Auditing", view: audit } };

export class ReleaseCard {
  /** `tasks` may be running for it; `changed()` is called when the server knows more about the release. */
  constructor(release, tasks, changed) {
    this.id = release.id;
    this.changed = changed;
    this.acts = []; // buttons that start a task, one at a time
    this.address = `/releases/${encodeURIComponent(release.id)}`;
    this.badges = el("span", { class: "badges" });
    this.progress = el("div");
    this.notes = el("div");
    this.outcome = { verify: el("div"), audit: el("div") };
    this.node = el(
      "article",
      { class: "panel release", "data-test": "release-card", "data-release": release.id },
      el("div", { class: "release-head" }, el("h3", {}, named(release.name, 60)), this.badges),
      facts(release),
      this.notes,
      this.#buttons(release),
      this.progress,
      this.outcome.verify,
      this.outcome.audit,
      this.#commands(release),
    );
    this.show(release);
    this.#recall().catch(complain);
    const task = runningTask(tasks, Object.keys(WORK), release.id);
    if (task) this.#run(task.kind, async () => task.id);
  }

  /** Show what was found out before this page was loaded. */
  async #recall() {
    const known = await get(`/api/releases/${encodeURIComponent(this.id)}/outcomes`);
    fill(this.notes, noteList(known.notes));
    for (const what of Object.keys(WORK))
      if (known[what] && this.outcome[what].childElementCount === 0)
        fill(this.outcome[what], WORK[what].view(known[what]));
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
      release.saved
        ? badge("", "saved", "saved-badge")
        : release.downloaded
          ? badge("", "downloaded", "saved-badge")
          : badge("warn", "not saved", "saved-badge"),
      release.seeded ? badge("warn", "⚠ seeded: not for publication", "seeded-badge") : null,
    );
  }

  /** Check the release by itself, or against its table. */
  verify(against) {
    return this.#start("verify", { against });
  }

  #start(what, body) {
    return this.#run(what, async () => {
      const { task } = await post(`/api/releases/${encodeURIComponent(this.id)}/${what}`, body);
      return task;
    });
  }

  async #run(what, begin) {
    for (const button of this.acts) button.disabled = true;
    try {
      const result = await follow(await begin(), this.progress, WORK[what].title);
      if (result === null) return;
      fill(this.outcome[what], WORK[what].view(result));
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
        act(truth ? "Audit against the table" : "Audit", "audit", () => this.#start("audit", { truth })),
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
        el("a", { class: "button", href: "/figures", "data-test": "to-figures" }, "Figures"),
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
