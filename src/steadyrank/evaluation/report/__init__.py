"""Turn results into figures, tables, a scorecard and a page; nothing here simulates."""
