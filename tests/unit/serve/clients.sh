#!/usr/bin/env bash
# The clients that people use, against the server: clients.sh PROGRAM MODEL VENV. They come from PyPI into VENV, once; where they
# cannot be had, the test is skipped by name.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$1 model=$2 venv=${CADENZA_CLIENTS_VENV:-$3}
wanted=(openai==2.54.0 langchain-openai==1.7.3 litellm==1.106.2 "lm-eval[api]==0.4.13")

skip() {
    echo "skipped clients: $*"
    exit 77
}

if [ ! -e "$venv/complete" ]; then
    command -v python3 >/dev/null || skip "there is no python3"
    mkdir -p "$(dirname "$venv")"
    python3 -m venv "$venv" >/dev/null 2>&1 || skip "python3 makes no virtual environment (python3-venv)"
    timeout 480 "$venv/bin/pip" install -q --disable-pip-version-check "${wanted[@]}" >"$venv/pip.log" 2>&1 ||
        skip "${wanted[*]} cannot be installed"
    touch "$venv/complete"
fi
# Nothing but the server is asked for anything.
export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 LITELLM_LOCAL_MODEL_COST_MAP=True LITELLM_TELEMETRY=False TQDM_DISABLE=1 \
    PYTHONDONTWRITEBYTECODE=1
exec "$venv/bin/python" "$here/clients.py" "$program" "$model"
