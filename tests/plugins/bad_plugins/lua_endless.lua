-- Never comes back; the sandbox ends it.
return cadenza.processor {
  id = "bad.plugin", version = "1.0.0", summary = "Never comes back",
  apply = function(p, ids, row) while true do end end,
}
