// How exposed people are: in figures, as a chart of people, and against the error of counts for the rule by odds.

import { count, el, fill, percent, plural, say, sentence, set, svg } from "./dom.js";
import { GroupShares } from "./group_shares.js";
import { post } from "./server.js";

const BANDS = 11; // tenths of probability, and certainty
const [WIDTH, TOP, BASE, HEIGHT] = [330, 12, 96, 118];
const GAP = 8; // before the last band, which is not like the others
const BAND = (WIDTH - GAP) / BANDS;
const left = (band) => band * BAND + (band === BANDS - 1 ? GAP : 0);
const bandWords = (band) => (band === BANDS - 1 ? "published outright" : `${10 * band} to ${10 * band + 10}\u00a0%`);
const ofPeople = (number) => (number > 0 && number < 1 ? "below 1" : count(number));

/** What the limits show of people. Nodes are made once. `price` is that of strata, and may be about earlier limits. */
export class Exposure {
  /** `useOdds(odds, event)` is for people who want nobody published outright. */
  constructor({ useOdds }) {
    const box = (name, title) => {
      const part = { node: el("span", { "data-test": name }), against: line(), strata: line() };
      part.box = el("div", { class: "main" }, el("dt", {}, title), el("dd", {}, part.node, part.against, part.strata));
      return part;
    };
    const line = () => el("span", { class: "against" });
    this.outright = box("outright", "Published outright");
    this.mean = box("exposure-mean", "Own value, average");
    this.mean.strata.dataset.test = "exposure-strata";
    this.words = el("p", { "data-test": "exposure" });
    this.chart = new PeopleChart();
    this.clearWords = el("strong");
    this.clear = el(
      "div",
      { class: "problem", "data-test": "clear", hidden: true },
      el("p", {}, this.clearWords),
      el(
        "div",
        { class: "buttons" },
        el(
          "button",
          { type: "button", class: "primary", "data-test": "use-odds", click: (event) => useOdds("8", event) },
          "Use odds 8",
        ),
      ),
    );
    this.node = el(
      "div",
      { class: "exposure" },
      this.clear,
      el("dl", { class: "figures" }, this.outright.box, this.mean.box),
      this.words,
      this.chart.node,
      (this.groups = new GroupShares()).node,
    );
  }

  /** Draw the exposure of an answer, beside that of the pinned policy. */
  show(exposure, pinned) {
    if (!exposure) return;
    this.live = exposure;
    const { outright, mean } = exposure;
    say(this.outright.node, outright > 0 ? count(outright) : "nobody");
    set(this.outright.node, "data-number", outright);
    this.outright.node.classList.toggle("bad-word", outright > 0);
    say(this.mean.node, percent(mean));
    set(this.mean.node, "data-number", mean);
    say(this.outright.against, pinned ? `A: ${pinned.outright > 0 ? count(pinned.outright) : "nobody"}` : "");
    say(this.mean.against, pinned ? `A: ${percent(pinned.mean)}` : "");
    this.clear.hidden = !(outright > 0);
    const people = plural(Math.round(outright), "person has", "people have");
    say(this.clearWords, `⚠ ${people} their value published outright. A limit of 1 hides nothing.`);
    this.#say();
  }

  /** Draw how much of a bucket groups take at most. */
  showGroups(tree, own) {
    this.tree = tree ?? null;
    this.own = own;
    const strata = this.strata?.groups ?? null;
    const groups = tree?.names.map((name, at) => ({
      name,
      share: tree.worst[at],
      strata: strata && Object.hasOwn(strata, name) ? strata[name] : null,
      limit: tree.limits[at],
    }));
    this.groups.show(groups ?? [], own, this.strata?.stale);
  }

  /** The sentence is about what will be published, as soon as that is known. */
  #say() {
    say(this.words, strataSentence(this.strata, this.strata?.exposure, this.live));
    this.chart.show(this.live, this.strata);
  }

  /** Draw the exposure with strata: nothing until it is known, grey while it is about earlier limits. */
  showStrata(price, strata) {
    this.strata = price?.strata > 1 && strata !== "none" ? price : null;
    const number = this.strata ? plural(price.strata, "stratum", "strata") : "";
    for (const part of [this.outright, this.mean])
      part.strata.classList.toggle("stale", this.strata?.stale === true);
    const { outright = 0, mean = 0 } = this.strata?.exposure ?? {};
    say(this.outright.strata, this.strata ? `with ${number}: ${outright > 0 ? count(outright) : "nobody"}` : "");
    say(this.mean.strata, this.strata ? `with ${number}: ${percent(mean)}` : "");
    if (this.live) this.#say();
    if (this.tree) this.showGroups(this.tree, this.own);
  }
}

/** The sentence about strata, if their price is known and not about earlier limits, or else that of the table as one. */
export function strataSentence(price, ofStrata, ofOne) {
  if (!price || price.stale !== false) return sentence(ofOne.sentence);
  return `With ${plural(price.strata, "stratum", "strata")}: ${ofStrata.sentence}.`;
}

/** People by the probability that the release gives to their own value. */
class PeopleChart {
  constructor() {
    this.bars = Array.from({ length: BANDS }, (_, band) => ({
      one: svg("rect", { class: band === BANDS - 1 ? "clear" : "one" }),
      strata: svg("rect", { class: band === BANDS - 1 ? "clear" : "strata" }),
    }));
    this.most = svg("text", { x: 0, y: TOP - 3 });
    const words = [0, 2, 4, 6, 8].map((band) =>
      svg("text", { x: left(band), y: BASE + 13, "text-anchor": band === 0 ? "start" : "middle" }, `${10 * band} %`),
    );
    this.picture = svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "data-test": "exposure-chart" },
      this.bars.map(({ one, strata }) => [one, strata]),
      svg("line", { x1: 0, x2: WIDTH, y1: BASE, y2: BASE }),
      svg("line", { class: "top", x1: 0, x2: WIDTH, y1: TOP, y2: TOP }),
      words,
      svg("text", { x: WIDTH, y: BASE + 13, "text-anchor": "end", class: "clear-word" }, "outright"),
      this.most,
    );
    this.rows = Array.from({ length: BANDS }, (_, band) => {
      const cells = [el("td", { class: "num" }), el("td", { class: "num" })];
      return { cells, node: el("tr", {}, el("th", { scope: "row" }, bandWords(band)), cells) };
    });
    this.head = el("th", { scope: "col", class: "num" });
    this.key = el(
      "p",
      { class: "size-key" },
      el("span", {}, el("i", { class: "one" }), "the table as one, now"),
      el("span", {}, el("i", { class: "strata" }), "with strata"),
    );
    this.node = el(
      "div",
      { class: "people-chart" },
      el("h3", {}, "People by the probability of their own value"),
      this.picture,
      this.key,
      el(
        "details",
        { class: "more" },
        el("summary", {}, "As a table"),
        el(
          "table",
          {},
          el(
            "thead",
            {},
            el(
              "tr",
              {},
              el("th", { scope: "col" }, "Probability"),
              el("th", { scope: "col", class: "num" }, "People"),
              this.head,
            ),
          ),
          el(
            "tbody",
            {},
            this.rows.map((row) => row.node),
          ),
        ),
      ),
    );
  }

  show(exposure, price) {
    const strata = price?.exposure ?? null;
    const most = Math.max(...exposure.bands, ...(strata?.bands ?? []), 1e-9);
    const width = BAND - 4;
    this.bars.forEach((bars, band) => {
      bar(bars.one, left(band) + 2, strata ? width / 2 : width, exposure.bands[band] / most);
      bar(bars.strata, left(band) + 2 + width / 2, width / 2, (strata?.bands[band] ?? 0) / most);
      say(this.rows[band].cells[0], ofPeople(exposure.bands[band]));
      say(this.rows[band].cells[1], strata ? ofPeople(strata.bands[band]) : "");
    });
    say(this.head, strata ? "With strata" : "");
    say(this.most, `${percent(most / (exposure.people || 1))} of the people`);
    this.key.hidden = !strata;
    this.picture.classList.toggle("stale-strata", price?.stale === true);
    set(this.picture, "aria-label", `People by the probability of their own value. ${sentence(exposure.sentence)}`);
  }
}

function bar(rect, x, width, share) {
  const height = share > 0 ? Math.max(2, share * (BASE - TOP)) : 0;
  for (const [name, number] of Object.entries({ x, width, y: BASE - height, height }))
    set(rect, name, Math.round(10 * number) / 10);
}

const [LEFT, RIGHT, UP, DOWN, TALL] = [34, 314, 30, 116, 146]; // of the plot

const NEAR = 24; // how far from a point the pointer may be

/** Exposure against the error of counts, for a few numbers of the rule by odds, and where the present limits are. */
export class TradeOff {
  /** `useOdds(odds, event)` takes a point of the curve. */
  constructor(host, draft, useOdds) {
    Object.assign(this, { host, draft, useOdds });
    this.curve = svg("polyline", { class: "curve" });
    this.points = svg("g");
    this.axes = svg("g");
    this.here = svg("g", { class: "here" }, svg("circle", { r: 7 }), svg("text", { "text-anchor": "middle" }, "you are here"));
    this.picture = svg(
      "svg",
      {
        viewBox: `0 0 ${WIDTH} ${TALL}`,
        role: "img",
        "data-test": "trade-off-chart",
        click: (event) => this.#take(event),
      },
      svg("line", { x1: LEFT, x2: RIGHT, y1: DOWN, y2: DOWN }),
      svg("line", { x1: LEFT, x2: LEFT, y1: UP, y2: DOWN }),
      this.axes,
      this.curve,
      this.points,
      this.here,
    );
    this.rows = el("tbody");
    fill(
      host,
      el("h3", {}, "Exposure against the error of counts"),
      this.picture,
      el("p", { class: "hint" }, "For the rule by odds alone, and the table as one. Choose a point to take its number."),
      el(
        "details",
        { class: "more" },
        el("summary", { "data-test": "trade-off-table" }, "As a table"),
        el(
          "table",
          {},
          el("thead", {}, el("tr", {}, ["Odds", "Own value", "Counts off by"].map((text, at) => el("th", { scope: "col", class: at ? "num" : null }, text)))),
          this.rows,
        ),
      ),
    );
  }

  /** Nothing has changed for a while: ask for the curve, if it is not the one that is shown. */
  async ask() {
    const { solve, protection, limits } = this.draft;
    const { floor, grouping, levels } = limits;
    const about = JSON.stringify([solve, protection.known_records, protection.fake_values, floor, grouping, levels]);
    this.host.classList.toggle("stale", about !== this.about);
    if (about === this.about) return;
    const stop = (this.stop = new AbortController());
    const answer = await post("/api/trade-off", {}, { signal: stop.signal }).catch(() => null);
    if (answer === null || this.stop !== stop) return; // the next pause asks again
    this.about = about;
    this.host.classList.remove("stale");
    this.host.hidden = answer.points.length < 2;
    this.#draw(answer.points);
  }

  /** Something has changed: whoever computes a curve has something better to do. */
  drop() {
    this.stop?.abort();
    this.stop = null;
  }

  /** Mark where an answer is. */
  mark(answer) {
    this.present = answer.exposure && answer.count_error ? [answer.exposure.mean, answer.count_error.typical] : null;
    if (!this.known) return;
    const [exposure, error] = this.present ?? [0, 0];
    if (exposure > this.most[0] || error > this.most[1]) return this.#draw(this.known); // the axes have to grow
    set(this.here, "visibility", this.present ? "visible" : "hidden");
    const [x, y] = this.#place(exposure, error);
    const [circle, text] = this.here.children;
    set(circle, "cx", x);
    set(circle, "cy", y);
    set(text, "x", Math.min(RIGHT - 30, Math.max(LEFT + 34, x)));
    set(text, "y", y + 21 > DOWN - 2 ? y - 24 : y + 21);
    const words = this.present ? `Present limits: own value ${percent(exposure)}, counts off by ${percent(error)}.` : "";
    set(this.picture, "aria-label", `Exposure against the error of counts, for odds of 1.5 to 16. ${words}`);
  }

  #place(exposure, error) {
    const [x, y] = [LEFT + ((RIGHT - LEFT) * exposure) / this.most[0], DOWN - ((DOWN - UP) * error) / this.most[1]];
    return [Math.round(10 * x) / 10, Math.round(10 * y) / 10];
  }

  /** Take the point that is nearest to the pointer. They may be close together. */
  #take(event) {
    const { left: start, top, width } = this.picture.getBoundingClientRect();
    const [x, y] = [event.clientX - start, event.clientY - top].map((length) => (length * WIDTH) / width);
    const away = this.places.map(([cx, cy]) => Math.hypot(cx - x, cy - y));
    const nearest = away.indexOf(Math.min(...away));
    if (away[nearest] <= NEAR) this.useOdds(this.known[nearest].odds, event);
  }

  #draw(points) {
    this.known = points;
    const [exposure, error] = this.present ?? [0, 0];
    this.most = [
      roundUp(Math.max(exposure, ...points.map((point) => point.exposure))),
      roundUp(Math.max(error, ...points.map((point) => point.error))),
    ];
    const places = (this.places = points.map((point) => this.#place(point.exposure, point.error)));
    set(this.curve, "points", places.map((place) => place.join(",")).join(" "));
    let free = 0; // numbers must not run into each other
    fill(
      this.points,
      points.map(({ odds }, at) => {
        const [cx, cy] = places[at];
        const fits = at === 0 || cx >= free;
        if (fits) free = cx + 20;
        return svg(
          "g",
          { class: "point", "data-test": "trade-off-point", "data-odds": odds },
          svg("title", {}, `odds ${odds}: own value ${percent(points[at].exposure)}, counts off by ${percent(points[at].error)}`),
          svg("circle", { cx, cy, r: 4 }),
          fits ? svg("text", { x: cx, y: cy - 9, "text-anchor": "middle" }, odds) : null,
        );
      }),
    );
    const [across, up] = this.most;
    fill(
      this.axes,
      svg("text", { x: LEFT, y: DOWN + 13, "text-anchor": "middle" }, "0"),
      svg("text", { x: RIGHT, y: DOWN + 13, "text-anchor": "middle" }, percent(across)),
      svg("text", { x: (LEFT + RIGHT) / 2, y: DOWN + 13, "text-anchor": "middle" }, percent(across / 2)),
      svg("text", { x: LEFT - 4, y: UP + 4, "text-anchor": "end" }, percent(up)),
      svg("text", { x: LEFT - 4, y: (UP + DOWN) / 2 + 4, "text-anchor": "end" }, percent(up / 2)),
      svg("text", { x: (LEFT + RIGHT) / 2, y: DOWN + 27, "text-anchor": "middle" }, "own value, on the average"),
      svg("text", { x: 0, y: 10 }, "counts typically off by"),
    );
    fill(
      this.rows,
      points.map(({ odds, exposure: shown, error: off }) =>
        el(
          "tr",
          {},
          el(
            "th",
            { scope: "row" },
            el(
              "button",
              { type: "button", class: "link", "aria-label": `Use odds ${odds}`, click: (event) => this.useOdds(odds, event) },
              odds,
            ),
          ),
          el("td", { class: "num" }, percent(shown)),
          el("td", { class: "num" }, percent(off)),
        ),
      ),
    );
    this.mark({ exposure: this.present && { mean: exposure }, count_error: this.present && { typical: error } });
  }
}

/** A round number at or above this one, for the end of an axis. */
function roundUp(number) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(number, 1e-6)));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((times) => times * unit).find((end) => end >= number * 1.04) ?? 20 * unit;
}
