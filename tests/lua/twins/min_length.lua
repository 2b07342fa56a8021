-- min_length.lua - no end of sequence before that many tokens, the prompt counted.
local function least(p, ctx)
  if ctx:config("min_new_tokens") then return ctx.min_length end    -- which follows from it
  return p.min_length or 0
end

return cadenza.processor {
  id = "min_length", version = "1.0.0", history_sparse = true,
  params = { min_length = { type = "integer", optional = true, generation = true,
                            help = "tokens, prompt included, before the sequence may end" } },
  idle = function(p, ctx) return least(p, ctx) <= 0 or #ctx.eos == 0 end,
  apply = function(p, ids, row, ctx)
    if #ids < least(p, ctx) then row:mask(ctx.eos) end
  end,
}
