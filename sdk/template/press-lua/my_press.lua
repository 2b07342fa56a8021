-- my_press.lua - what has small keys stays, and the newest positions stay whatever their keys are.
return cadenza.press {
  id = "org.example.my-press", version = "0.1.0",
  summary = "Keep small keys and the newest positions",
  params = { newest = { 4, 0, 4096, "positions at the end that stay", integer = true } },
  needs = { "keys" },
  score = function(p, head)                      -- once for each KV head of each layer
    for i = 0, head.n - 1 do                     -- the host keeps the best, as many as the ratio leaves
      head.scores[i] = head.n - i <= p.newest and 1 or -head:key(i):norm()
    end
  end,
}
