// How much of a bucket groups of values take at most: of the limits in work, and of a release.

import { el, fill, percent, plural, say, shortened } from "./dom.js";

const FEW_GROUPS = 6;

/** The largest share of a bucket that a group takes, beside its limit. */
export class GroupShares {
  constructor(heading = "h3") {
    this.rows = el("tbody");
    this.summary = el("summary", { "data-test": "all-groups" });
    this.rest = el("tbody");
    this.more = el(
      "details",
      { class: "more", toggle: () => this.more.open && fill(this.rest, this.others.map(shareRow)) },
      this.summary,
      el("table", {}, el("caption", { class: "sr-only" }, "Other groups"), this.rest),
    );
    const head = (text, kind) => el("th", { scope: "col", class: kind }, text);
    this.strata = head("Strata", "num");
    this.node = el(
      "div",
      { class: "group-shares", "data-test": "group-shares", hidden: true },
      el(heading, {}, "Groups: largest share of a bucket"),
      el(
        "table",
        {},
        el("thead", {}, el("tr", {}, head("Group"), head("Share", "num"), this.strata, head("Limit", "num"))),
        this.rows,
      ),
      this.more,
    );
  }

  /**
   * Draw groups: a list of {name, share, strata, limit}, of which all but the name may be null. Those with a limit of
   * their `own` come first, and then those of which a bucket shows most. Strata are grey if they are `stale`.
   */
  show(groups, own = {}, stale = false) {
    const limited = groups.filter(({ share, limit }) => share !== null && limit !== null);
    const first = ({ name }) => (Object.hasOwn(own, name) ? 1 : 0);
    limited.sort((a, b) => first(b) - first(a) || b.share - a.share);
    this.node.hidden = limited.length === 0;
    this.strata.hidden = !limited.some(({ strata }) => typeof strata === "number");
    this.node.classList.toggle("stale-strata", stale === true);
    this.others = limited.slice(FEW_GROUPS);
    fill(this.rows, limited.slice(0, FEW_GROUPS).map(shareRow));
    this.more.hidden = this.others.length === 0;
    say(this.summary, plural(this.others.length, "more group"));
    if (this.more.open) fill(this.rest, this.others.map(shareRow));
  }
}

const shareRow = ({ name, share, strata, limit }) =>
  el(
    "tr",
    { "data-group": name, "data-share": share, "data-limit": limit },
    el("th", { scope: "row" }, el("bdi", {}, shortened(name, 80))),
    el("td", { class: "num" }, percent(share)),
    typeof strata === "number" ? el("td", { class: "num strata" }, percent(strata)) : null,
    el("td", { class: "num" }, percent(limit)),
  );
