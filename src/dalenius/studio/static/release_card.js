// A release: what it is, what can be done with it, and how to do the same from a terminal.

import { post, text } from "./api.js";
import { command, quoted } from "./commands.js";
import { el, fill, named } from "./dom.js";
import { count, figure, sentence } from "./format.js";
import { announce, complain } from "./notices.js";
import { follow } from "./tasks.js";
import { audit, verdict } from "./verdicts.js";

const VERIFIED = new Map([
  [true, ["good", "✓ verified"]],
  [false, ["bad", "✗ NOT verified"]],
  [null, ["", "not verified yet"]],
]);

export class ReleaseCard {
  /** `notes`: what publishing said; `changed()` when the server knows more of it. */
  constructor(release, notes, changed) {
    this.id = release.id;
    this.changed = changed;
    this.acts = []; // buttons that start work, one piece of it at a time
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

  /** Show what is known of it now. */
  show(release) {
    this.node.classList.toggle("verified", release.verified === true);
    if (release.verified === null) fill(this.outcome.verify); // the release changed, and so what was found is past
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

  async #run(what, title, body, shown) {
    for (const button of this.acts) button.disabled = true;
    try {
      const { task } = await post(`/api/releases/${encodeURIComponent(this.id)}/${what}`, body);
      const result = await follow(task, this.progress, title);
      if (result === null) return;
      fill(this.outcome[what], shown(result));
      announce(this.outcome[what].querySelector("h3").textContent);
      await this.changed();
    } catch (error) {
      complain(error);
    } finally {
      for (const button of this.acts) button.disabled = false;
    }
  }

  /** The job file begins with the command that publishes by it; it is read when somebody looks. */
  #commands(release) {
    const folder = quoted(release.name);
    const first = el("div");
    const details = el(
      "details",
      {
        class: "commands",
        toggle: async () => {
          if (!details.open || first.childElementCount > 0) return;
          const job = await text(`${this.address}/job.toml`).catch(() => "");
          if (ownCommand(job)) fill(first, command(ownCommand(job)));
        },
      },
      el("summary", { "data-test": "commands" }, "The same from the command line"),
      first,
      command(`dalenius verify ${folder} --job job.toml`),
      command(`dalenius report ${folder} --audit -o report.html`),
      el(
        "p",
        { class: "hint" },
        "With the job file and the table at hand. Buckets come out in the same sizes; who is with whom is drawn anew.",
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
        act(truth ? "Audit, with the truth" : "Audit", "audit", () => this.#run("audit", "Auditing", { truth }, audit)),
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
    release.fake_values ? fact("fakes a bucket", count(release.fake_values)) : null,
  );
}

/** The command in the first line of a job file, or "" if it has none. */
function ownCommand(job) {
  const [first] = job.split("\n", 1);
  return first.startsWith("# dalenius ") ? first.slice(2) : "";
}

/** A name as releases have it: plain letters, digits, dots, hyphens and underscores. */
export const plainName = (name) =>
  name
    .trim()
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^[-.]+|[-.]+$/g, "")
    .slice(0, 40) || "release";
