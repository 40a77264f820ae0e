"""One self-contained HTML page about a run: `data.ReportData` in, `build.build_report` out."""
