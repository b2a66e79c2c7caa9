// A release: the verdict on it, what was found, what can be done with it, and the same from a terminal.

import { count, el, figure, fill, named } from "./dom.js";
import { GroupShares } from "./group_shares.js";
import { audit, exposureChart, findingList, noteList, verdict, verdictBlock } from "./outcomes.js";
import { read } from "./rules.js";
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
  [true, ["", "verified"]],
  [false, ["bad", "✗ NOT verified"]],
  [null, ["", "not verified yet"]],
]);

const WORK = { verify: "Verifying", audit: "Auditing" };
const ACTS = { "not-attacked": "audit", "not-measured": "audit", "not-compared": "verify" }; // what answers a finding
const HEAD = { title: "Title", dataset: "Data", controller: "Controller", purpose: "Purpose" };
const LONGEST = { title: 100, dataset: 100, controller: 100, purpose: 200 };

export class ReleaseCard {
  /** `tasks` may be running for it; `changed()` is called when the server knows more about the release. */
  constructor(release, tasks, changed) {
    this.id = release.id;
    this.changed = changed;
    this.address = `/releases/${encodeURIComponent(release.id)}`;
    this.badges = el("span", { class: "badges" });
    this.progress = el("div");
    this.asked = 0; // questions about what is known; only the last answer is shown
    this.parts = Object.fromEntries(["verdict", "notes", "audit", "verify"].map((name) => [name, el("div")]));
    this.truth = release.with_truth;
    this.known_records = release.known_records;
    this.node = el(
      "article",
      { class: "panel release", "data-test": "release-card", "data-release": release.id },
      el("div", { class: "release-head" }, el("h3", {}, named(release.name, 60)), this.badges),
      this.parts.verdict,
      this.#buttons(),
      this.#head(release.report),
      this.progress,
      this.parts.audit,
      this.parts.verify,
      this.parts.notes,
      facts(release),
      this.#commands(release),
    );
    this.show(release);
    const task = runningTask(tasks, Object.keys(WORK), release.id);
    if (task) this.#run(task.kind, async () => task.id);
  }

  /** Show the badges, and ask for more if something was found out, or is void because the release changed. */
  show(release) {
    const badge = (kind, text, test) => el("span", { class: `badge ${kind}`, "data-test": test }, text);
    fill(
      this.badges,
      badge(...VERIFIED.get(release.verified), "verified-badge"),
      badge("", release.audited ? "attacked" : "not attacked yet", "audited-badge"),
      release.saved
        ? badge("", "saved", "saved-badge")
        : release.downloaded
          ? badge("", "downloaded", "saved-badge")
          : badge("warn", "not saved", "saved-badge"),
      release.seeded ? badge("warn", "⚠ seeded: not for publication", "seeded-badge") : null,
    );
    const known = `${release.verified} ${release.audited}`;
    if (this.known !== known) this.#ask().catch(complain);
    this.known = known;
  }

  /** Show everything that the server knows about the release. */
  async #ask() {
    const asked = (this.asked += 1);
    const known = await get(`/api/releases/${encodeURIComponent(this.id)}/outcomes`);
    if (asked !== this.asked) return;
    const { card } = known;
    this.node.dataset.tone = card?.verdict.tone ?? "";
    fill(
      this.parts.verdict,
      card
        ? [
            verdictBlock(card.verdict, card.advice),
            card.exposure ? el("p", { class: "exposure", "data-test": "exposure" }, card.exposure) : null,
            card.people ? exposureChart(card.people, card.bands, card.several) : null,
            groupShares(known.verify.groups, this.known_records, known.own_groups),
            card.findings.length ? el("h4", {}, "What was found") : null,
            findingList(card.findings, (finding) => this.#actFor(finding)),
            card.counts.map((text) => el("p", { class: "hint" }, text)),
          ]
        : el("p", { class: "muted", "data-test": "no-verdict" }, "Not verified and not attacked yet: there is no verdict."),
    );
    fill(this.parts.notes, noteList(known.notes));
    fill(this.parts.verify, known.verify ? verdict(known.verify) : null);
    fill(this.parts.audit, known.audit && card ? audit(known.audit, known.attackers, card.attackers) : null);
  }

  /** The button that answers a finding. */
  #actFor({ code }) {
    const what = ACTS[code];
    if (what === undefined || !this.truth) return null;
    const run = () => this.#start(what, what === "audit" ? { truth: true } : { against: true });
    const title = what === "audit" ? "Audit now" : "Verify now";
    return [" ", el("button", { type: "button", class: "small", "data-test": `${what}-now`, click: run }, title)];
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
    for (const button of this.node.querySelectorAll("[data-act], .findings button")) button.disabled = true;
    try {
      const result = await follow(await begin(), this.progress, WORK[what]);
      if (result === null) return;
      await this.changed();
      await this.#ask();
      announce(this.node.querySelector(".verdict h4")?.textContent ?? "");
    } catch (error) {
      complain(error);
    } finally {
      for (const button of this.node.querySelectorAll("[data-act], .findings button")) button.disabled = false;
    }
  }

  /** What the report is headed with. It is kept when a field is left. */
  #head(given) {
    const fields = Object.entries(HEAD).map(([name, title]) => {
      const id = `${name}-${this.id}`;
      const field = el("input", { id, name, type: "text", maxlength: LONGEST[name], "data-test": `head-${name}` });
      field.value = given[name] ?? "";
      field.addEventListener("change", () => save().catch(complain));
      return el("div", { class: "field" }, el("label", { for: id }, title), field);
    });
    const state = el("p", { class: "hint", role: "status", "data-test": "head-state" }, "They stand on the first page.");
    const node = el(
      "details",
      { class: "report-head", "data-test": "report-head" },
      el("summary", {}, "Title and purpose of the report"),
      el("div", { class: "report-fields" }, fields),
      state,
    );
    const save = async () => {
      const head = Object.fromEntries([...node.querySelectorAll("input")].map((field) => [field.name, field.value]));
      await post(`/api/releases/${encodeURIComponent(this.id)}/head`, head);
      fill(state, "Kept, for the report and the job file.");
    };
    return node;
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
      release.several_rows ? command(`dalenius query ${folder} EXPRESSION --count people`) : null,
      command(`dalenius report ${folder} --job job.toml --audit --truth TABLE -o report.html`),
      el(
        "p",
        { class: "hint" },
        "You need the job file and the table. The buckets get the same sizes, but who shares a bucket is drawn again.",
      ),
    );
    return details;
  }

  #buttons() {
    const { truth } = this;
    const act = (title, test, run) =>
      el("button", { type: "button", "data-test": test, "data-act": true, click: run }, title);
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

/** How much of a bucket each group takes at most, as it was verified, beside its limit; limits by name come first. */
function groupShares(groups, known, own) {
  const shares = new GroupShares("h4");
  shares.show(
    groups.map(({ name, limit, worst: { count: most, size } }) => ({
      name,
      share: most / Math.max(1, size - known),
      limit: limit === null ? null : read(limit),
    })),
    Object.fromEntries(own.map((name) => [name, true])),
  );
  return groups.length > 0 ? shares.node : null;
}

function facts(release) {
  const fact = (title, value) => el("div", {}, el("dt", {}, title), el("dd", {}, value));
  return el(
    "dl",
    { class: "release-facts" },
    release.by_people ? fact("people", count(release.people)) : null,
    fact(release.by_people ? "rows" : "records", count(release.rows)),
    release.dropped ? fact("rows left out", count(release.dropped)) : null,
    fact("buckets", count(release.buckets)),
    release.by_people
      ? release.sensitive.map(({ column, of, values, file }) =>
          fact(
            ["values of ", named(column, 30)],
            [count(values), el("span", { class: "hint" }, ` in ${file}`, of.length > 1 ? [", in any of ", of.join(", ")] : "")],
          ),
        )
      : fact(release.has_bands ? "bands" : "sensitive values", count(release.values)),
    fact("strata", count(release.strata)),
    fact("MSE", figure(release.mse)),
    release.known_records ? fact(release.by_people ? "known people" : "known records", count(release.known_records)) : null,
    release.fake_values ? fact("fakes per bucket", count(release.fake_values)) : null,
    release.chain ? fact("release of its chain", count(release.chain)) : null,
    release.surplus ? fact("values of nobody", count(release.surplus)) : null,
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
