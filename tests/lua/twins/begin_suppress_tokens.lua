-- begin_suppress_tokens.lua - not these tokens at the beginning.
return cadenza.processor {
  id = "begin_suppress_tokens", version = "1.0.0", history_sparse = true,
  params = { begin_suppress_tokens = { type = "integers", generation = true, help = "tokens that may not come first" } },
  idle = function(p) return not p.begin_suppress_tokens end,
  apply = function(p, ids, row, ctx)
    local first = ctx.prompt_len                     -- behind a lone start token a forced one comes first
    if first <= 1 and ctx:config("forced_bos_token_id") then first = first + 1 end
    if #ids == first then row:mask(p.begin_suppress_tokens) end
  end,
}
