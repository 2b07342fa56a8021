-- iso_date.lua - the answer is a date: 2024-05-31.
local dates = cadenza.grammar { regex = "(19|20)[0-9]{2}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))" }
return cadenza.processor {
  id = "org.example.iso-date", version = "1.0.0",
  begin = function() return { at = dates:start() } end,
  accept = function(_, state, token) state.at = dates:feed(state.at, { token }) end,
  apply = function(_, _, row, ctx)
    local may = dates:allowed(ctx.state.at)
    if dates:accepts(ctx.state.at) then may:set(ctx.eos) end
    row:keep_bits(may)
  end,
}
