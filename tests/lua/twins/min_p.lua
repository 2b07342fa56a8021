-- min_p.lua - drop tokens less likely than a share of the likeliest.
return cadenza.processor {
  id = "min_p", version = "1.0.0", needs_ids = false, keeps_argmax = true, keeps_top = true, sampling_only = true,
  params = { min_p = { type = "number", optional = true, generation = true, min = 0, max = 1,
                       help = "share of the best probability a token must reach" },
             min_tokens_to_keep = { 1, 1, help = "tokens left whatever min_p says", integer = true } },
  idle = function(p) return not p.min_p end,
  apply = function(p, ids, row) row:keep_minp(p.min_p, p.min_tokens_to_keep) end,
}
