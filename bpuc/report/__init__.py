"""What people look at: perf.json and report.json as a page, as plain text, as CSV and as a trace.

Everything here starts from those two JSON documents alone, so a report can be made again later from the file.
Nothing here computes a latency or takes a decision.

The page is put together by `html` from `templates`: `parts` holds the HTML of a section a file, `css` and `js` a
subject a file, the scripts in one scope; `view`, `against` and `graphview` turn the document into what they show.
"""
