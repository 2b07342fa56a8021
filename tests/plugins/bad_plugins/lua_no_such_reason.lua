-- A table is no reason.
return cadenza.criterion {
  id = "bad.plugin", version = "1.0.0", summary = "Answers with a table",
  test = function(p, ids) return {} end,
}
