-- backtrack.lua - greedy decoding that takes a token back when what follows it is improbable.
return cadenza.strategy {
  id = "test.backtrack", version = "1.0.0", one_row = true, rewinds = true,
  run = function(ctx)
    local left, banned = 8, nil
    while not ctx:done() do
      local scores = ctx:process(ctx:forward())
      if banned then ctx:ban(scores, banned) end
      local token, _, prob = ctx:argmax(scores, 1)
      if prob < 0.6 and left > 0 and ctx:rewindable() > 0 then
        local ids = ctx:input_ids()
        banned, left = ids[#ids], left - 1
        ctx:rewind(1)
      else
        banned = nil
        ctx:append(token)
      end
    end
  end,
}
