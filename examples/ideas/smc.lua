-- smc.lua - Loula et al., "Syntactic and Semantic Control of Large Language Models via Sequential Monte Carlo" (2025): particles are
-- drawn among the tokens that a constraint allows, each weighed by the probability that those had; when few weigh much they are
-- drawn anew. Masking alone follows wrong ways to their end; here these die out.
return cadenza.strategy {
  id = "org.example.smc", version = "1.0.0", one_row = true, samples = true,
  params = {
    regex = { " [a-z]+( [a-z]+)?", "what the answer must be" }, n = { 8, 1, 256, "particles", integer = true },
  },
  run = function(ctx)
    local p, at, all, drawn = ctx.params, #ctx:input_ids(), {}, 0
    local grammar = cadenza.grammar { regex = p.regex }
    ctx:forward()
    for i = 1, p.n do all[i] = { seq = ctx:seq_of_row():fork(), at = grammar:start(), w = 0 } end
    local function shares()
      local w = {}
      for i, x in ipairs(all) do w[i] = x.w end
      return vec.from(w):softmax()
    end
    local function pick(share)
      local u, reached = ctx:uniform(), 0
      for i = 1, p.n do
        reached = reached + share[i - 1]
        if u < reached then return i end
      end
      return p.n
    end
    for _ = at + 1, ctx.max_length do
      local live, seqs = {}, {}
      for _, x in ipairs(all) do if not x.over then live[#live + 1], seqs[#seqs + 1] = x, x.seq end end
      if #live == 0 then break end
      local scores = ctx:seq_forward(seqs, "last")
      for i, x in ipairs(live) do
        local row = scores:row(i)
        local before, may = row:logsumexp(), grammar:allowed(x.at)
        if grammar:accepts(x.at) then may:set(ctx.eos) end
        x.w = x.w + row:keep_bits(may):logsumexp() - before
      end
      for i, token in ipairs(ctx:multinomial(ctx:softmax(scores))) do
        local x = live[i]
        x.seq:append(token)
        for _, id in ipairs(ctx.eos) do x.over = x.over or id == token end
        if not x.over then x.at = grammar:feed(x.at, { token }) end
      end
      local share = shares()
      if 1 / share:dot(share) < p.n / 2 then                -- the effective number of particles
        local new = {}
        for i = 1, p.n do
          local x = all[pick(share)]
          new[i] = { seq = x.seq:fork(), at = x.at, over = x.over, w = 0 }
        end
        for _, x in ipairs(all) do x.seq:free() end
        all, drawn = new, drawn + 1
      end
    end
    local x = all[pick(shares())]
    ctx:append_chunk(1, x.seq:ids():totable(at + 1, #x.seq))
    ctx:result("drawn_anew", { drawn }, "int64")
  end,
}
