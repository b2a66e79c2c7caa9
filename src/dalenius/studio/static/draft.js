// The policy in work: limits, sizes and protection, as they go to the server with every question.

/** A policy that can be asked about; the server keeps the last one that was. */
export class Draft {
  constructor({ limits, solve, protection }) {
    this.limits = copied(limits);
    this.solve = { ...solve };
    this.protection = structuredClone(protection);
    this.sequence = 0;
  }

  /** What to send. */
  question(exact) {
    this.sequence += 1;
    return { limits: this.limits, solve: this.solve, protection: this.protection, exact, sequence: this.sequence };
  }
}

/** Limits that can be changed apart from the given ones. Values may have any name, "constructor" too: no prototype. */
export function copied(limits) {
  return { ...limits, values: Object.assign(Object.create(null), limits.values) };
}
