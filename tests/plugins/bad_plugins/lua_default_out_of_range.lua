-- A default outside its own bounds.
return cadenza.processor {
  id = "bad.plugin", version = "1.0.0", summary = "A default out of range",
  params = { strength = { 9, 0, 1, "how much" } },
  apply = function(p, ids, row) row:mul(p.strength) end,
}
