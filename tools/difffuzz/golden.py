"""tests/golden/make_goldens.py as a module: the recorder of goldens is the fuzzer's reference too, and its plans have weights."""
from __future__ import annotations

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))

import golden_plan_families as plan  # noqa: E402
import golden_plan_more as plan_more  # noqa: E402
import make_goldens as golden  # noqa: E402

__all__ = ["golden", "plan", "plan_more", "ROOT"]
