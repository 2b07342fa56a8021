-- suppress_tokens.lua - never these tokens.
return cadenza.processor {
  id = "suppress_tokens", version = "1.0.0", needs_ids = false, history_sparse = true,
  params = { suppress_tokens = { type = "integers", generation = true, help = "tokens that may not appear" } },
  idle = function(p) return not p.suppress_tokens end,
  apply = function(p, ids, row) row:mask(p.suppress_tokens) end,
}
