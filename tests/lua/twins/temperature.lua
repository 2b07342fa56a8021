-- temperature.lua - divide the scores: below 1 sharper, above 1 flatter.
return cadenza.processor {
  id = "temperature", version = "1.0.0", needs_ids = false, elementwise = true, keeps_argmax = true, sampling_only = true,
  params = { temperature = { type = "number", optional = true, generation = true, min = 0, above_min = true,
                             help = "scores are divided by it" } },
  idle = function(p) return not p.temperature or p.temperature == 1 end,
  apply = function(p, ids, row) row:temperature(p.temperature) end,
}
