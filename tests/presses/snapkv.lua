-- snapkv.lua - what the prompt's last queries look at stays, and so do they.
return cadenza.press {
  id = "org.example.snapkv", version = "1.0.0",
  summary = "Keep what the prompt's last queries look at",
  params = { window_size = { 8, 1, 4096, "queries that are asked", integer = true },
             kernel_size = { 5, 1, 63, "positions that are averaged over", integer = true } },
  needs = function(p) return { "attention", window = p.window_size } end,
  score = function(p, head)
    local half, n = p.kernel_size // 2, head.n - p.window_size
    local looks = vec.new(head.n)
    for h = 0, head.group - 1 do
      for q = 0, head.n_queries - 1 do looks:add(head:attention(h, q)) end
    end
    for i = 0, head.n - 1 do
      local sum = i < n and 0 or 1e9                    -- the window itself
      for j = math.max(0, i - half), math.min(n - 1, i + half) do sum = sum + looks[j] end
      head.scores[i] = sum
    end
  end,
}
