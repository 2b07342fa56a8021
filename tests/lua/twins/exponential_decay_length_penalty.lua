-- exponential_decay_length_penalty.lua - from a length on the end of sequence grows likelier with every token.
return cadenza.processor {
  id = "exponential_decay_length_penalty", version = "1.0.0",
  params = { exponential_decay_length_penalty = { type = "integer_and_number", generation = true,
                                                  help = "[start, factor]: from start new tokens on the end grows likelier" } },
  idle = function(p) return not p.exponential_decay_length_penalty end,
  apply = function(p, ids, row, ctx)
    local start, factor = table.unpack(p.exponential_decay_length_penalty)
    local n = #ids - ctx.prompt_len - start
    if n <= 0 then return end
    local added = vec.new(ctx.n_vocab)
    local growth = vec.from({ factor ^ n - 1 }):item(0)     -- rounded once to float32
    for _, id in ipairs(ctx.eos) do added[id] = math.abs(row[id]) * growth end
    row:add(added)
  end,
}
