-- knorm.lua - positions whose keys are small stay.
return cadenza.press {
  id = "org.example.knorm", version = "1.0.0",
  summary = "Keep positions whose keys are small",
  needs = { "keys" },
  score = function(p, head)
    for i = 0, head.n - 1 do
      head.scores[i] = -head:key(i):norm()
    end
  end,
}
