-- goes_back.lua - greedy on a sequence of its own, which now and then reads ahead and goes back.
local function junk(n)
  local ids = {}
  for i = 1, n do ids[i] = i * 7 % 200 + 3 end
  return ids
end

return cadenza.strategy {
  greedy = true,
  run = function(ctx)
    local seq, step = ctx:seq_new():append(ctx:input_ids(1)), 0
    while not ctx:done() do
      local tokens = ctx:argmax(ctx:seq_forward(seq))
      ctx:append(tokens)
      seq:append(tokens)
      step = step + 1
      if step % 5 == 0 then
        local n = #seq
        seq:append(junk(step % 2 == 0 and 20 or 220))
        ctx:seq_forward(seq)
        seq:truncate(n)
      end
    end
  end,
}
