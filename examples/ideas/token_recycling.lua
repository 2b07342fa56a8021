-- token_recycling.lua - Luo et al., "Turning Trash into Treasure: Accelerating Inference of Large Language Models with Token
-- Recycling" (2024): what each token was last followed by, k candidates of it, is kept; from it grow several drafts, a branch
-- each here, which are verified in one pass, and whose candidates are kept in turn.
return cadenza.strategy {
  id = "org.example.token-recycling", version = "1.0.0", one_row = true, greedy = true,
  params = { k = { 3, 1, 16, "candidates, and branches", integer = true }, depth = { 4, 1, 32, "tokens of a branch", integer = true } },
  run = function(ctx)
    local p, after, passes = ctx.params, {}, 0
    local ids = ctx:input_ids():totable()
    local last = table.remove(ids)
    local seq = ctx:seq_new()
    if #ids > 0 then ctx:seq_forward({ seq:append(ids) }, "none") end
    while not ctx:done() do
      local branches, seqs = {}, {}
      for b, id in ipairs(after[last] or { last }) do
        local chain = { id }
        while #chain < p.depth and after[chain[#chain]] do chain[#chain + 1] = after[chain[#chain]][1] end
        branches[b], seqs[b] = chain, seq:fork():append(last):append(chain)
      end
      local scores, at, best, right = ctx:seq_forward(seqs, "all"), 1, 1, -1
      local said = {}
      passes = passes + 1
      for b, chain in ipairs(branches) do
        local n, going = 0, true
        said[b] = {}
        for i = 0, #chain do
          local top = scores:row(at + i):topk(p.k):totable()
          after[i == 0 and last or chain[i]] = top
          said[b][i + 1] = top[1]
          going = going and chain[i + 1] == top[1]
          if going then n = n + 1 end
        end
        at = at + #chain + 1
        if n > right then best, right = b, n end
      end
      seq:free()
      for b, s in ipairs(seqs) do if b ~= best then s:free() end end
      seq = seqs[best]
      seq:truncate(#seq - #branches[best] + right)
      last = said[best][right + 1]
      ctx:append_chunk(1, table.move(said[best], 1, right + 1, 1, {}))
    end
    ctx:result("passes", { passes }, "int64")
  end,
}
