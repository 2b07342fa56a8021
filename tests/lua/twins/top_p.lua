-- top_p.lua - keep the likeliest tokens that together reach probability p.
return cadenza.processor {
  id = "top_p", version = "1.0.0", needs_ids = false, keeps_top = true, sampling_only = true,
  params = { top_p = { type = "number", optional = true, generation = true, min = 0, help = "probability to keep" },
             min_tokens_to_keep = { 1, 1, help = "tokens left whatever top_p says", integer = true } },
  idle = function(p) return not p.top_p or p.top_p >= 1 end,
  apply = function(p, ids, row) row:keep_topp(p.top_p, p.min_tokens_to_keep) end,
}
