"""Studio: the publisher's work in the browser, on this machine only.

`serve` starts it, `app` routes addresses, `guard` decides who may ask, and `state` holds everything behind the pages.

- Pages and messages: `pages` renders the templates in `templates/` and serves `static/`; `forms` checks what a page
  sends; `messages` has the shape of answers and errors.
- The publisher's work: `table_entries` (tables and the counts of their columns), `draft` (roles, limits, protection,
  and steps back), `demo_table` (a made-up one), `releases` and `studio_release`, `tasks` (long work), `transfers`
  (uploads and downloads). `api` connects them.
- What limits cost: `explorer` asks, `answering` turns a plan into an `exploration`, `offers` finds limits that can be
  kept. `worker` and `child` look for exact answers, and price strata, in other processes.
"""
