-- min_new_tokens.lua - no end of sequence before that many new tokens.
return cadenza.processor {
  id = "min_new_tokens", version = "1.0.0", history_sparse = true,
  params = { min_new_tokens = { type = "integer", optional = true, generation = true,
                                help = "new tokens before the sequence may end" } },
  idle = function(p, ctx) return (p.min_new_tokens or 0) <= 0 or #ctx.eos == 0 end,
  apply = function(p, ids, row, ctx)
    if #ids - ctx.prompt_len < p.min_new_tokens then row:mask(ctx.eos) end
  end,
}
