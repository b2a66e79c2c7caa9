"""The report on a release: an HTML page for people, and its JSON twin for programs.

`report_files` makes a report from start to end. `facts` verifies, attacks and measures the release; `twin` turns the
facts into one JSON object; `page` renders that object, with sentences from `front_page`, `statements`, `words` and
`attackers`, drawings from `charts`, and numbers from `formatting`.
"""
