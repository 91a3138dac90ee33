"""Run sheets: what people print, fill in with a spreadsheet, and hand back. All of a sheet is read, or none of it."""
