-- The answer depends on how often it was asked.
local calls = 0
return cadenza.processor {
  id = "bad.plugin", version = "1.0.0", summary = "Counts its calls in an upvalue",
  apply = function(p, ids, row)
    calls = calls + 1
    row[0] = calls
  end,
}
