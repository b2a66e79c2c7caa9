// Page 4: look at the whole policy once more, publish it, and check what came out.

import { post } from "./api.js";
import { byId, fill } from "./dom.js";
import { Draft } from "./draft.js";
import { announce, clear, complain } from "./notices.js";
import { showPolicy, showWarnings } from "./policy_words.js";
import { plainName, ReleaseCard } from "./release_card.js";
import { mark, ready } from "./shell.js";
import { markLimits } from "./standing.js";
import { chosenTable, fresh, initial, untilCounted } from "./state.js";
import { follow, running } from "./tasks.js";

const cards = new Map(); // release id -> card, so that what a card shows stays when others come
const notes = new Map();
let state = initial;

showReleases();
if (byId("publish-form")) {
  showPolicy(byId("policy"), state, null);
  showWarnings(byId("warnings"), state, null);
  byId("release-name").value ||= freeName(); // somebody may have typed before this script came
  byId("publish-form").addEventListener("submit", (event) => {
    event.preventDefault();
    publish();
  });
  ready();
  explore();
  resume();
}

/** What the plan says: how many buckets, and whether the limits can be kept at all. */
async function explore() {
  try {
    await untilCounted(state);
    for (const exact of [false, true]) {
      const answer = await post("/api/explore", { ...new Draft(state).question(exact), draft: false });
      showPolicy(byId("policy"), state, answer);
      showWarnings(byId("warnings"), state, answer);
      markLimits(answer);
    }
  } catch (error) {
    if (error.kind !== "abandoned") complain(error);
  }
}

function freeName() {
  const table = chosenTable(state)?.name ?? "table";
  const base = plainName(table.replace(/(\.(csv|tsv|parquet|pq|duckdb|db|gz))+/gi, ""));
  const taken = new Set(state.releases.map((release) => release.name));
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? `${base}-release` : `${base}-release-${number}`;
    if (!taken.has(name)) return name;
  }
}

/** The name is taken now; another one may have been typed meanwhile. */
function nextName() {
  const field = byId("release-name");
  if (state.releases.some((release) => release.name === field.value.trim())) field.value = freeName();
}

async function publish() {
  clear();
  const name = byId("release-name").value.trim();
  const format = document.querySelector("input[name=format]:checked").value;
  try {
    const { task } = await post("/api/publish", { name, format });
    await watch(task);
  } catch (error) {
    complain(error);
  }
}

async function resume() {
  const task = await running(initial.tasks, ["publish"]);
  if (task) await watch(task.id).catch(complain);
}

async function watch(id) {
  byId("publish").disabled = true;
  try {
    const result = await follow(id, byId("publish-progress"), "Publishing");
    if (result === null) return announce("Cancelled. Nothing was published.");
    notes.set(result.release, result.notes);
    await reload();
    nextName();
    mark("publish", "done");
    mark("query", "ready");
    announce("Published.");
    const card = cards.get(result.release);
    card.node.scrollIntoView({
      block: "start",
      behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
    });
    card.verify(false); // by code of its own: who publishes wants to see that
  } finally {
    byId("publish").disabled = false;
  }
}

async function reload() {
  state = await fresh();
  showReleases();
}

function showReleases() {
  const releases = [...state.releases].reverse();
  for (const release of releases) {
    if (cards.has(release.id)) cards.get(release.id).show(release);
    else cards.set(release.id, new ReleaseCard(release, notes.get(release.id), reload));
  }
  byId("releases-section").hidden = releases.length === 0;
  const host = byId("releases");
  const nodes = releases.map((release) => cards.get(release.id).node);
  if (nodes.some((node, at) => host.children[at] !== node)) fill(host, nodes);
}
