-- max_length.lua - stop when a row is full: prompt and new tokens together.
return cadenza.criterion {
  id = "max_length", version = "1.0.0",
  params = { max_length = { type = "integer", optional = true, min = 0,
                            help = "tokens of a full row, prompt included; unset: the request's" } },
  test = function(p, ids, ctx)
    return #ids >= (p.max_length or ctx.max_length) and "length"
  end,
}
