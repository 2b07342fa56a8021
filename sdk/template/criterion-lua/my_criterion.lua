-- my_criterion.lua - stop a row when a token has been produced often enough.
return cadenza.criterion {
  id = "org.example.my-criterion", version = "0.1.0",
  summary = "Stop when a token has been produced often enough",
  params = { token = { 0, 0, 2147483647, "id of the token", integer = true },
             times = { 1, 1, 1000000, "how often it may be produced", integer = true } },
  test = function(p, ids, ctx)             -- once per row, after each token; ids begin at 1
    local seen = 0
    for i = ctx.prompt_len + 1, #ids do
      if ids[i] == p.token then seen = seen + 1 end
    end
    if seen >= p.times then return "often enough" end
  end,
}
