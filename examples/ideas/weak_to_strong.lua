-- weak_to_strong.lua - Zhou et al., "Weak-to-Strong Search: Align Large Language Models via Searching over Small Language Models"
-- (2024): a beam search over chunks of text. `width` states grow by `ways` chunks each, and those are kept that a small tuned
-- model finds so much likelier than the same model before tuning.
return cadenza.strategy {
  id = "org.example.weak-to-strong", version = "1.0.0", one_row = true, samples = true,
  params = {
    width = { 2, 1, 64, "states that are kept", integer = true }, ways = { 2, 1, 64, "chunks that are drawn for each", integer = true },
    chunk = { 5, 1, 1000, "tokens of a chunk", integer = true },
  },
  run = function(ctx)
    local p, at, states = ctx.params, #ctx:input_ids(), {}
    local function says(name, seq)
      local ids = ctx:convert(seq:ids(), "target", name)
      local n = #ids - #ctx:convert(ctx:input_ids(), "target", name)
      local own = ctx:seq_new(name):append(ids)
      local value = ctx:seq_score(own, n)[1]
      own:free()
      return value
    end
    ctx:forward()
    for i = 1, p.width do states[i] = { seq = ctx:seq_of_row():fork() } end
    while true do
      local all, live, seqs = {}, {}, {}
      for _, s in ipairs(states) do
        for _ = 1, s.stop and 1 or p.ways do
          local x = { seq = s.seq:fork(), stop = s.stop, value = s.value, place = #all + 1 }
          all[#all + 1] = x
          if not x.stop then live[#live + 1], seqs[#seqs + 1] = x, x.seq end
        end
        s.seq:free()
      end
      if #live == 0 then states = all break end
      for i, r in ipairs(ctx:rollouts(seqs, p.chunk)) do
        live[i].stop, live[i].value = r.stop, says("tuned", seqs[i]) - says("untuned", seqs[i])
      end
      table.sort(all, function(a, b) return a.value > b.value or a.value == b.value and a.place < b.place end)
      for i = #all, p.width + 1, -1 do all[i].seq:free() all[i] = nil end
      states = all
    end
    ctx:append_chunk(1, states[1].seq:ids():totable(at + 1, #states[1].seq))
    ctx:result("value", { states[1].value }, "float32")
  end,
}
