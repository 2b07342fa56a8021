-- drafts_and_returns.lua - greedy decoding with drafts, judged in one pass, that goes a step back where it was unsure.
local function chosen(ctx, scores, row, floor)
  local token, _, prob = ctx:argmax(scores, row)
  return token, prob >= floor
end

-- The processed scores behind each token of the draft, in one pass.
local function ahead(ctx, ids, draft)
  local seq, histories, rows = ctx:seq_of_row(1):fork(), {}, {}
  seq:append(draft)
  local scores = ctx:seq_forward({ seq }, "all")
  for i = 1, #draft do
    ids[#ids + 1] = draft[i]
    histories[i], rows[i] = { table.unpack(ids) }, 1
  end
  ctx:process_ids(0, histories, rows, scores)
  seq:free()
  return scores
end

local function copy(list)
  local out = {}
  for i = 1, #list do out[i] = list[i] end
  return out
end

return cadenza.strategy {
  id = "test.drafts-and-returns", version = "1.0.0", one_row = true, rewinds = true, greedy = true,
  params = { floor   = { 0.3, 0, 1, "a token less likely is thought over" },
             retries = { 6, 0, 1000, "times that it is", integer = true } },
  run = function(ctx)
    local left, banned, accepted = ctx.params.retries, nil, 0
    while not ctx:done() do
      local scores = ctx:process(ctx:forward())
      if banned then ctx:ban(scores, banned) end
      local token, sure = chosen(ctx, scores, 1, banned and 0 or ctx.params.floor)
      local draft = not banned and sure and ctx:has_drafter() and ctx:propose() or {}
      local chunk, right = { token }, 0
      if #draft > 0 and draft[1] == token then
        local more = ahead(ctx, copy(ctx:input_ids()), draft)
        repeat
          right = right + 1
          token, sure = chosen(ctx, more, right, ctx.params.floor)
          chunk[#chunk + 1] = token
        until not sure or draft[right + 1] ~= token
      end
      if ctx:has_drafter() and #draft > 0 then ctx:judged(1, right) end
      accepted = accepted + right
      ctx:append_chunk(1, chunk)
      if not sure and left > 0 and not ctx:done() then
        banned, left = token, left - 1
        ctx:rewind(1)
      else
        banned = nil
      end
    end
    ctx:result("accepted", { accepted })
  end,
}
