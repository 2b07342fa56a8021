-- Counts tokens beside the row's state: rows that part go on counting together.
local taken = 0
return cadenza.processor {
  id = "bad.plugin", version = "1.0.0", summary = "Counts tokens in an upvalue",
  apply = function(p, ids, row) row[0] = taken end,
  accept = function(p, state, token) taken = taken + 1 end,
}
