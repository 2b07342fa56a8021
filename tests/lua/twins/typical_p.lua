-- typical_p.lua - keep the tokens of nearly expected surprise that together reach a probability.
return cadenza.processor {
  id = "typical_p", version = "1.0.0", needs_ids = false, sampling_only = true,
  params = { typical_p = { type = "number", optional = true, generation = true, min = 0, above_min = true,
                           help = "probability to keep; 1 and above: all" },
             min_tokens_to_keep = { 1, 1, help = "tokens left whatever typical_p says", integer = true } },
  idle = function(p) return not p.typical_p or p.typical_p >= 1 end,
  apply = function(p, ids, row) row:keep_typical(p.typical_p, p.min_tokens_to_keep) end,
}
