-- prefix_allowed_tokens.lua - only some tokens may come next: a fixed list for each place of the row.
local mask                                              -- 0 where a token may come, else -inf

-- The list for a row of n ids, and where the cycle of its prompt begins.
local function allowed(p, ctx, n)
  local lengths = p.cycle_lengths
  if not lengths or #lengths == 0 then return p.cycle[n % #p.cycle + 1] end
  local per_prompt = math.max(1, ctx.n_rows // ctx.n_prompts)
  local prompt = math.min((ctx.row - 1) // per_prompt, ctx.n_prompts - 1)
  local first = 0
  for i = 1, prompt do first = first + lengths[i] end
  return p.cycle[first + n % lengths[prompt + 1] + 1]
end

return cadenza.processor {
  id = "prefix_allowed_tokens", version = "1.0.0",
  params = { cycle = { type = "integer_lists", min = 0, max = 2147483647,
                       help = "ids allowed after 0, 1, 2, ... ids, prompt included; then from the start again" },
             cycle_lengths = { type = "integers", min = 1, max = 2147483647,
                               help = "cycle holds a cycle for each prompt, of these lengths, one after the other" } },
  create = function(p)
    if not p.cycle or #p.cycle == 0 then error("cycle is empty; expected lists of allowed ids", 0) end
    local sum = 0
    for _, n in ipairs(p.cycle_lengths or {}) do sum = sum + n end
    if sum > 0 and sum ~= #p.cycle then
      error(("cycle_lengths add up to %d, but cycle has %d lists"):format(sum, #p.cycle), 0)
    end
  end,
  begin = function(ctx)
    local n = #(ctx.params.cycle_lengths or {})
    if n > 0 and n < ctx.n_prompts then error(("cycle_lengths: %d cycles for %d prompts"):format(n, ctx.n_prompts)) end
    for i, list in ipairs(ctx.params.cycle) do
      if #list == 0 then error(("cycle: list %d allows no token"):format(i - 1)) end
      for _, id in ipairs(list) do
        if id >= ctx.n_vocab then error(("cycle: token %d is outside the vocabulary of %d"):format(id, ctx.n_vocab)) end
      end
    end
  end,
  apply = function(p, ids, row, ctx)
    local list = allowed(p, ctx, #ids)
    mask = mask and #mask == #row and mask or vec.new(#row)
    row:add(mask:fill(-math.huge):set(list, 0))
  end,
}
