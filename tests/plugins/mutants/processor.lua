-- processor.lua - one sound script, and what can be wrong with it: BUG, set by the test before this, names what is.
local calls, taken = 0, 0

local function harm(ids, row, count)
  if BUG == "late_nil" and #ids > 12 then local x = nil + 1 end
  if BUG == "late_field" and count == 100 then local x = ids.nothing.here end
  if BUG == "late_error" and count == 50 then error("broken") end
  if BUG == "late_index" and count >= 7 then row[#row + 1] = 0 end
  if BUG == "high_id" and ids[#ids] > 500 then error("an id of the upper half") end
  if BUG == "counts_late" and count >= 7 then
    calls = calls + 1
    row[0] = calls
  end
  if BUG == "upvalue" then row[0] = taken end
  if BUG == "nan_late" and count == 60 then row[0] = 0 / 0 end
  if BUG == "endless_late" and count == 30 then while true do end end
end

return cadenza.processor {
  id = "org.example.mutant", version = "1.0.0", summary = "Makes the newest token less likely",
  elementwise = BUG == "lies_elementwise", keeps_argmax = BUG == "lies_argmax",
  sampling_only = BUG == "lies_sampling",
  begin = function() return { count = 0 } end,
  apply = function(p, ids, row, ctx)
    local count = ctx.state.count
    if BUG == "lies_argmax" or BUG == "lies_sampling" then
      if count >= 100 then row[row:argmax()] = -50 end
    elseif BUG == "lies_elementwise" then
      if count >= 100 then row[1] = row[2] end
    else
      row[ids[#ids]] = row[ids[#ids]] - 1 - count % 100 / 4
    end
    harm(ids, row, count)
  end,
  accept = function(p, state, token)
    state.count = state.count + 1
    taken = taken + 1
    if BUG == "accept_nil" and state.count == 40 then local x = token .. nil end
    if BUG == "accept_text" and token == 0 then error("no such token") end
  end,
}
