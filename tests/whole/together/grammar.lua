-- grammar.lua - a mask that follows a small automaton over the row's new ids: after `run` tokens of one parity, one of the other.
return cadenza.processor {
  id = "test.grammar", version = "1.0.0",
  params = { run = { 3, 1, 100, "tokens of one parity in a row", integer = true } },
  apply = function(p, ids, row, ctx)
    local length, parity = 0, nil
    for i = ctx.prompt_len + 1, #ids do
      local own = ids[i] % 2
      length, parity = own == parity and length + 1 or 1, own
    end
    if length < p.run then return end
    local set = bitset.new(ctx.n_vocab)
    for id = parity, ctx.n_vocab - 1, 2 do set:set(id) end
    row:mask_bits(set)
  end,
}
